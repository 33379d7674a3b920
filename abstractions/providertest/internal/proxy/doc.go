// Package proxy has proxies that answer in place of an HTTP server.
package proxy
