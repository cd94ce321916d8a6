// Stock kube-apiserver, built from its own module, for machines whose package sources have none.
package main

import (
	"os"
	_ "time/tzdata" // CronJobs name time zones

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
