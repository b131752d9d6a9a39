/* Reads where the judge's memory lies. */
#include "attempt.h"

static int attempt(void) { return opens(of_parent("maps"), O_RDONLY); }
