// Package credentialtest has checks of a provider's credentials: [SourcesOfCredentials] that fail, files that are replaced
// ([OutlivesRotation]), code of the application that panics ([ApplicationPanics]), and secrets, which no text shows ([Shown]) and
// no other host is sent ([NoSecretIsRedirected]).
package credentialtest
