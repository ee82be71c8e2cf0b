"""What runs inside other people's trainers. Each module names the extra that it needs; nothing else imports them."""
