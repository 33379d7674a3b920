// Package credentialtest has checks of a provider's credentials: [SourcesOfCredentials] that fail, files that are replaced
// ([OutlivesRotation]), code of the application that panics ([ApplicationPanics]), and secrets, which must appear in no text
// ([Shown]) and be sent to no other host ([NoSecretIsRedirected]).
package credentialtest
