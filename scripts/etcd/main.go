// Stock etcd, built from its own module: the distributions' 3.4 lacks what kube-apiserver 1.34 needs to watch.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
