package leaderelection

import (
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	ctrllease "github.com/distributedleasing/leasing/adapters/controllerruntime"
	"github.com/distributedleasing/leasing/integration/adapters/hosttest"
)

// newLease is called in place of resourcelock.NewWithLabels.
func newLease(_, namespace, name string, _ corev1client.CoreV1Interface, _ coordinationv1client.CoordinationV1Interface,
	config resourcelock.ResourceLockConfig, _ map[string]string) (resourcelock.Interface, error) {
	return ctrllease.New(hosttest.NewManager(), namespace+"/"+name, config.Identity), nil
}
