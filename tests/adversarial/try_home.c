/* Lists the homes of others. */
#include "attempt.h"

static int attempt(void) {
  return opens("/root", O_RDONLY | O_DIRECTORY) || opens("/home", O_RDONLY | O_DIRECTORY);
}
