// Package credentialtest has checks of a provider's credentials: [SourcesOfCredentials] that fail, files that are replaced
// ([OutlivesRotation]), code of the application that panics ([ApplicationPanics]), and secrets, which must not appear in any
// text ([Shown]) or be sent to another host ([NoSecretIsRedirected]).
package credentialtest
