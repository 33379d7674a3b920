package leasing

import (
	_ "github.com/stretchr/testify/require"
	_ "go.opentelemetry.io/otel"
	_ "go.uber.org/goleak"
	_ "pgregory.net/rapid"
)
