package fixture

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startLongboat runs the controller of the program in LONGBOAT against the API server of the specs, until they end. The specs
// bring KServe's webhooks, so the controller gets their certificate and changes no webhook configuration. Its log is the file
// in LONGBOAT_LOG_FILE.
func startLongboat(environment *envtest.Environment, namespace string) {
	server := environment.Config
	config := api.NewConfig()
	config.Clusters["specs"] = &api.Cluster{Server: server.Host, CertificateAuthorityData: server.CAData}
	config.AuthInfos["specs"] = &api.AuthInfo{ClientCertificateData: server.CertData, ClientKeyData: server.KeyData}
	config.Contexts["specs"] = &api.Context{Cluster: "specs", AuthInfo: "specs"}
	config.CurrentContext = "specs"
	folder, err := os.MkdirTemp("", "kserve-specs")
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	kubeconfig := filepath.Join(folder, "kubeconfig")
	gomega.Expect(clientcmd.WriteToFile(*config, kubeconfig)).To(gomega.Succeed())
	log, err := os.Create(os.Getenv("LONGBOAT_LOG_FILE"))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	controller := exec.Command(os.Getenv("LONGBOAT"), "controller", "--kubeconfig", kubeconfig,
		"--system-namespace", namespace, "--image", "longboat:specs", "--storage-migration", "false",
		"--webhook-host", "127.0.0.1", "--webhook-port", "0",
		"--webhook-cert-dir", environment.WebhookInstallOptions.LocalServingCertDir,
		"--health-probe-addr", "0", "--metrics-addr", "0")
	controller.Stdout, controller.Stderr = log, log
	gomega.Expect(controller.Start()).To(gomega.Succeed())
	ginkgo.DeferCleanup(func() {
		_ = controller.Process.Kill()
		_ = controller.Wait()
		_ = os.RemoveAll(folder)
	})
}
