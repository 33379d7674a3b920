// Package telemetry checks what an OpenTelemetry SDK sees of the library.
package telemetry
