module longboat.dev/kubectl

go 1.25.0

require k8s.io/kubectl v0.34.13
