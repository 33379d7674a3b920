// Package kuberneteslease x
package kuberneteslease
