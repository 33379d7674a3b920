// Package credentialtest checks how a provider handles credentials: sources that fail ([SourcesOfCredentials]), files that are
// replaced ([OutlivesRotation]), application code that panics ([ApplicationPanics]), and secrets, which must not appear in any
// text ([Shown]) or be sent to another host ([NoSecretIsRedirected]).
package credentialtest
