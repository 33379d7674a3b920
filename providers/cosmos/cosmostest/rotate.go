package cosmostest

// SetKey replaces the account's key. Requests that are signed with the former key are refused.
func (a *Account) SetKey(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.options.Key = key
}
