/* Makes processes without end. */
#include "attempt.h"

static int attempt(void) { int made = 0; for (int i = 0; i < 100000; ++i) { const pid_t child = fork(); if (child == 0) for (;;) pause(); made += child > 0; } return made > 0; }
