//! A real etcd and kube-apiserver with certificates, RBAC and an audit log.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    ops::Range,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicU16, Ordering::Relaxed},
    },
};

use base64::{Engine, prelude::BASE64_STANDARD};
use longboat_tls::{CertificateAuthority, KeyPair, LeafRequest};

use crate::{api::Api, tools, wait::until};

/// Ports below Linux's ephemeral range, which begins at 32768, and above well-known ones.
const PORTS: Range<u16> = 20_000..32_000;

/// A shell script that kills the program when its standard input closes, and removes the program's folder. The input closes
/// however this process ends. The shell ignores the signals that Ctrl-C sends to the whole process group, so it outlives the
/// program.
const GUARD: &str =
    r#"trap '' INT TERM HUP; "$@" & echo $! > "$0"; read -r end; kill -9 $!; wait; rm -rf "$FOLDER""#;

/// Logs every request of the controller, and no other request.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    users: ['system:serviceaccount:kserve:llmisvc-controller-manager']
  - level: None
";

/// A Kubernetes API server in a folder of its own.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) folder: PathBuf,
    /// The administrator's kubeconfig.
    pub(crate) kubeconfig: PathBuf,
    pub(crate) url: String,
    /// A client that is the administrator.
    pub(crate) api: Api,
    etcd: Api,
    _programs: [Program; 2],
}

// === impl Server ===

impl Server {
    /// Starts a server. Returns `None`, and reports it, if the programs are missing.
    pub(crate) fn start() -> Option<Self> {
        Self::audited(AUDIT_POLICY)
    }

    /// Like [`Server::start`], with another audit policy, which must include the controller's refused requests.
    pub(crate) fn audited(policy: &str) -> Option<Self> {
        let (etcd, apiserver) = (tools::tool("bin/etcd")?, tools::tool("bin/kube-apiserver")?);
        // The shells of [`Program`] remove the folder.
        let folder = tempfile::Builder::new().prefix("longboat-cluster-").tempdir().unwrap().keep();
        let [etcd_port, port] = free_ports();
        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let etcd = Program::start(&etcd, &folder.join("etcd.log"), |command| {
            command
                .arg(format!("--data-dir={}", folder.join("etcd").display()))
                .arg(format!("--listen-client-urls={etcd_url}"))
                .arg(format!("--advertise-client-urls={etcd_url}"))
                .args(["--listen-peer-urls=http://127.0.0.1:0", "--unsafe-no-fsync", "--log-level=warn"]);
        });

        let authority = CertificateAuthority::new("cluster of a test").unwrap();
        let issue = |name: &str, request: LeafRequest| {
            let pair = authority.issue(&LeafRequest { days: 1, ..request }).unwrap();
            fs::write(folder.join(format!("{name}.crt")), &pair.certificate_pem).unwrap();
            fs::write(folder.join(format!("{name}.key")), &pair.key_pem).unwrap();
            pair
        };
        fs::write(folder.join("ca.crt"), authority.pem()).unwrap();
        issue(
            "server",
            LeafRequest {
                common_name: "kube-apiserver".into(),
                dns_names: ["localhost", "kubernetes.default.svc"].map(Into::into).to_vec(),
                ips: vec![Ipv4Addr::LOCALHOST.into(), Ipv4Addr::new(10, 96, 0, 1).into()],
                ..LeafRequest::default()
            },
        );
        let account_keys = LeafRequest { common_name: "service accounts".into(), ..LeafRequest::default() };
        issue("accounts", account_keys);
        let admin = issue(
            "admin",
            LeafRequest {
                common_name: "admin".into(),
                organization: "system:masters".into(),
                client_auth: true,
                ..LeafRequest::default()
            },
        );
        fs::write(folder.join("audit-policy.yaml"), policy).unwrap();

        let file = |name: &str| folder.join(name).display().to_string();
        let apiserver = Program::start(&apiserver, &folder.join("kube-apiserver.log"), |command| {
            command
                .arg(format!("--etcd-servers={etcd_url}"))
                .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
                .arg(format!("--secure-port={port}"))
                .arg(format!("--cert-dir={}", file("self-made")))
                .arg(format!("--tls-cert-file={}", file("server.crt")))
                .arg(format!("--tls-private-key-file={}", file("server.key")))
                .arg(format!("--client-ca-file={}", file("ca.crt")))
                .arg(format!("--service-account-key-file={}", file("accounts.crt")))
                .arg(format!("--service-account-signing-key-file={}", file("accounts.key")))
                .arg("--service-account-issuer=https://kubernetes.default.svc")
                .arg("--service-cluster-ip-range=10.96.0.0/16")
                .arg("--authorization-mode=RBAC")
                .arg("--allow-privileged=true")
                .arg("--endpoint-reconciler-type=none")
                // The embedded server accepts these autoscalers, too.
                .arg("--feature-gates=HPAScaleToZero=true")
                .arg(format!("--audit-policy-file={}", file("audit-policy.yaml")))
                .arg(format!("--audit-log-path={}", file("audit.log")));
        });

        let url = format!("https://127.0.0.1:{port}");
        let api = Api::new(&url, &authority.pem(), &admin);
        let programs = [etcd, apiserver];
        until("the API server is ready", || {
            for program in &programs {
                program.assert_running();
            }
            api.try_get("/readyz").filter(|answer| answer.status == 200)
        });
        let server = Self {
            kubeconfig: folder.join("admin.kubeconfig"),
            folder,
            url,
            api,
            etcd: Api::plain(&etcd_url),
            _programs: programs,
        };
        server.write_kubeconfig(&server.kubeconfig, &User::Certificate(&admin));
        Some(server)
    }

    /// Writes a kubeconfig for `user` of this server.
    pub(crate) fn write_kubeconfig(&self, path: &Path, user: &User) {
        let user = match user {
            User::Certificate(pair) => {
                let (certificate, key) = (path.with_extension("crt"), path.with_extension("key"));
                fs::write(&certificate, &pair.certificate_pem).unwrap();
                fs::write(&key, &pair.key_pem).unwrap();
                serde_json::json!({"client-certificate": certificate, "client-key": key})
            }
            User::Token(token) => serde_json::json!({"token": token}),
        };
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": self.url,
                "certificate-authority": self.folder.join("ca.crt"),
            }}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        fs::write(path, config.to_string()).unwrap();
    }

    /// Requests a token of a service account in the platform's namespace.
    pub(crate) fn token(&self, account: &str) -> String {
        let path = format!("/api/v1/namespaces/kserve/serviceaccounts/{account}/token");
        let request = serde_json::json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 36_000},
        });
        let token = self.api.post(&path, &request).ok();
        token["status"]["token"].as_str().unwrap().to_owned()
    }

    /// Returns the JSON that etcd holds under one of the API server's keys, or `None`. Only custom resources are stored as
    /// JSON.
    pub(crate) fn stored(&self, key: &str) -> Option<serde_json::Value> {
        let request = serde_json::json!({"key": BASE64_STANDARD.encode(format!("/registry/{key}"))});
        let answer = self.etcd.post("/v3/kv/range", &request).ok();
        let value = answer["kvs"][0]["value"].as_str()?;
        serde_json::from_slice(&BASE64_STANDARD.decode(value).ok()?).ok()
    }

    /// Returns the controller's requests that RBAC or admission refused, as `verb path: message`. The controller learns of the
    /// deletion of a namespace or a CRD a moment later than the API server, so what it then asks for in them is left out.
    pub(crate) fn refusals(&self) -> Vec<String> {
        let mut refusals = self.all_refusals();
        refusals.retain(|refusal| {
            !refusal.contains("is being terminated")
                && !refusal.contains("while custom resource definition is terminating")
        });
        refusals
    }

    /// Returns all of the controller's requests that RBAC or admission refused.
    pub(crate) fn all_refusals(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.join("audit.log")).unwrap_or_default();
        let events = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        events
            .filter(|event| event["responseStatus"]["code"] == 403)
            .map(|event| {
                let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
                let reason = match text(&event["annotations"]["authorization.k8s.io/decision"]).as_str() {
                    "forbid" => text(&event["annotations"]["authorization.k8s.io/reason"]),
                    _ => text(&event["responseStatus"]["message"]),
                };
                format!("{} {}: {reason}", text(&event["verb"]), text(&event["requestURI"]))
            })
            .collect()
    }
}

/// How a user authenticates.
#[derive(Debug)]
pub(crate) enum User<'a> {
    Certificate(&'a KeyPair),
    Token(&'a str),
}

/// A program that ends with this process, and its log file.
#[derive(Debug)]
pub(crate) struct Program {
    shell: Child,
    /// The file to which the shell writes the program's process id.
    pid: PathBuf,
    log: PathBuf,
    path: PathBuf,
}

// === impl Program ===

impl Program {
    /// Starts a program that writes its output to `log`. The folder of `log` is removed when the program has ended.
    pub(crate) fn start(program: &Path, log: &Path, set_up: impl FnOnce(&mut Command)) -> Self {
        let pid = log.with_extension("pid");
        let output = fs::File::create(log).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", GUARD]).arg(&pid).arg(program).env("FOLDER", log.parent().unwrap());
        command.stdin(Stdio::piped()).stdout(output.try_clone().unwrap()).stderr(output);
        set_up(&mut command);
        let shell = command.spawn().unwrap();
        Self { shell, pid, log: log.to_owned(), path: program.to_owned() }
    }

    /// Stops the test with the end of the log if the program has ended.
    pub(crate) fn assert_running(&self) {
        let pid = fs::read_to_string(&self.pid).unwrap_or_default();
        let pid = pid.trim();
        if pid.is_empty() {
            // The shell has not started the program yet.
            return;
        }
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let ended = stat.rsplit(") ").next().unwrap_or_default().starts_with('Z');
        if !stat.is_empty() && !ended {
            return;
        }
        panic!("{} ended:\n{}", self.path.display(), self.log_tail());
    }

    /// The last lines of the log.
    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Returns free ports outside of the system's ephemeral range, so that the system gives them to no other program. No port is
/// returned twice within this process. Other processes start at another random port of the range.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| rand::random_range(PORTS).into());
    [(); N].map(|()| {
        let mut ports = PORTS.map(|_| PORTS.start + NEXT.fetch_add(1, Relaxed) % (PORTS.end - PORTS.start));
        let free = ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
        free.unwrap_or_else(|| panic!("all ports of {PORTS:?} are taken"))
    })
}
