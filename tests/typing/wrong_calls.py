# pyright: strict
"""Twenty wrong calls. A type checker reports every line that ends in `# wrong`, and no other."""

import bandit_lab as bl

bl.predict(refresh_intervall=8)  # wrong
bl.predict(refresh_interval="8")  # wrong
bl.predict(staleness="refreshed")  # wrong
bl.predict(8)  # wrong
bl.predict(advantage="grpo_std")  # wrong
bl.predict(learning_rate="fast")  # wrong
bl.predict(momentum=None)  # wrong
bl.predict(plugins=3)  # wrong
bl.predict(bandit=["two_arm"])  # wrong
print(bl.predict().verdict.learning_rate)  # wrong
print(bl.predict().threshold)  # wrong
bl.sweep(engine="spark")  # wrong
bl.sweep(boundary="momentum")  # wrong
bl.sweep(seeds=1.5)  # wrong
bl.sweep(pictures="no")  # wrong
bl.sweep(sweep=["refresh_interval"])  # wrong
bl.simulate(optimizer="adamw2")  # wrong
bl.simulate(path="fastest")  # wrong
bl.reproduce(quality="final")  # wrong
bl.load(run_dir=7)  # wrong

bl.predict(refresh_interval=8, momentum=0.9, bandit={"name": "k_arm", "rewards": [0.9, 0.1]})
bl.sweep(sweep={"refresh_interval": [1, 2]}, dynamics="mean_field", run_dir="here")
print(bl.predict(stiffness=0.5).verdict.upper())
