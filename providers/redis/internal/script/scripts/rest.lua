-- The commonest case of this script is in the loop at its end, a quick_*.lua. The rest is made
-- when it is needed first: a function, and a variable that it has from outside, is an allocation.
local whole
local function complete(k, a)
if whole then return whole(k, a) end
