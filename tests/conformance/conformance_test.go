// Package conformance runs the Gateway API's conformance suite, as published, against a cluster.
package conformance

import (
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

func TestConformance(t *testing.T) { conformance.RunConformance(t) }
