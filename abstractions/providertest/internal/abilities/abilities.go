package abilities

import "slices"

// Checks has the checks of all abilities.
var Checks = slices.Concat(batchChecks, waiterChecks, waitersChecks, listerChecks, historyChecks)
