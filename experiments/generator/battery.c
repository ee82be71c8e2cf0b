/* TestU01 batteries on 32-bit little-endian words read from standard input.
 *
 *   cc -O2 -o battery battery.c -ltestu01 -ltestu01probdist -ltestu01mylib -lm
 *   battery small|crush|big|rabbit|alphabit [as-is|swap|reverse] [TEST]
 *
 * Most of TestU01 looks at the leading bits only: `swap` exchanges the two halves of every word, `reverse` its bits.
 * TEST: of Crush, only the test of that number. The words read are counted and printed at the end. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <testu01/bbattery.h>
#include <testu01/unif01.h>

enum { BUFFER = 1 << 18 };
static uint32_t buffer[BUFFER];
static size_t next = BUFFER;
static unsigned long long words_read = 0;
static enum { AS_IS, SWAP, REVERSE } order = AS_IS;

static unsigned int next_word(void) {
  if (next == BUFFER) {
    if (fread(buffer, sizeof *buffer, BUFFER, stdin) != BUFFER) {
      fprintf(stderr, "battery: the stream ended after %llu words\n", words_read);
      exit(1);
    }
    next = 0;
  }
  uint32_t x = buffer[next++];
  words_read++;
  if (order == AS_IS) return x;
  if (order == SWAP) return x << 16 | x >> 16;
  x = (x & 0x55555555u) << 1 | (x >> 1 & 0x55555555u);
  x = (x & 0x33333333u) << 2 | (x >> 2 & 0x33333333u);
  x = (x & 0x0F0F0F0Fu) << 4 | (x >> 4 & 0x0F0F0F0Fu);
  return __builtin_bswap32(x);
}

int main(int count, char **words) {
  const char *battery = count > 1 ? words[1] : "";
  if (count > 2) order = !strcmp(words[2], "swap") ? SWAP : !strcmp(words[2], "reverse") ? REVERSE : AS_IS;
  setvbuf(stdout, NULL, _IOLBF, 0); /* so that a run that is cut short leaves what it has found */
  unif01_Gen *stream = unif01_CreateExternGenBits("standard input", next_word);
  if (!strcmp(battery, "small")) bbattery_SmallCrush(stream);
  else if (!strcmp(battery, "crush") && count > 3) {
    int times[200] = {0};
    times[atoi(words[3]) % 200] = 1;
    bbattery_RepeatCrush(stream, times);
  } else if (!strcmp(battery, "crush")) bbattery_Crush(stream);
  else if (!strcmp(battery, "big")) bbattery_BigCrush(stream);
  else if (!strcmp(battery, "rabbit")) bbattery_Rabbit(stream, 33554432.0);
  else if (!strcmp(battery, "alphabit")) bbattery_Alphabit(stream, 4294967296.0, 0, 32);
  else return fprintf(stderr, "battery: small, crush, big, rabbit or alphabit\n"), 2;
  printf("words read: %llu (%.1f GiB)\n", words_read, words_read * 4.0 / (1 << 30));
  return 0;
}
