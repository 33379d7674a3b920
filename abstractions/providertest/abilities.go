package providertest

import "slices"

// AbilityChecks are the checks of abilities: a provider without the ability is left out.
var AbilityChecks = slices.Concat(batchChecks, waiterChecks, waitersChecks, listerChecks, historyChecks)
