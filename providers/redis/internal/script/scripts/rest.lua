-- Where a quick_*.lua has what is needed most, the rest is made when it is needed first: a server
-- would else spend a fifth of a call on making functions that nobody calls.
local function rest()
