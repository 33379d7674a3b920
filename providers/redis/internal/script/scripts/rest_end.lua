whole = complete
return complete(k, a)
end
