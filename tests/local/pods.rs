//! Stock kubectl on pods and workloads of one namespace of the shared world.

use std::{fs, process::Command};

use crate::{
    local_cluster::{Ended, LocalCluster, run},
    tools,
    wait::until,
};

const WORKLOADS: &str = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: counts}
spec:
  completions: 3
  parallelism: 2
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: none, command: [sh, -c, "echo done"]}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: fails}
spec:
  backoffLimit: 0
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: none, command: [sh, -c, "exit 2"]}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: numbered}
spec:
  replicas: 2
  serviceName: numbered
  selector: {matchLabels: {app: numbered}}
  template:
    metadata: {labels: {app: numbered}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: none
        command: [sh, -c, "echo $HOSTNAME > /data/name; exec sleep 1000"]
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden}
stringData: {key: value}
---
apiVersion: v1
kind: Pod
metadata: {name: shell}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: secret, secret: {secretName: hidden}}, {name: work, emptyDir: {}}]
  containers:
  - name: main
    image: none
    command: [sh, -c, "while true; do echo tick; sleep 0.2; done"]
    env: [{name: GREETING, value: hello}]
    volumeMounts: [{name: secret, mountPath: /secret}, {name: work, mountPath: /scratch}]
"#;

/// A namespace of the shared world, which is deleted at the end.
struct Namespace {
    name: &'static str,
    world: &'static LocalCluster,
}

impl Namespace {
    fn new(name: &'static str) -> Self {
        let world = LocalCluster::shared();
        world.ask(&["create", "namespace", name]);
        Self { name, world }
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        self.world.run(&[&["-n", self.name], arguments].concat())
    }

    fn ask(&self, arguments: &[&str]) -> String {
        self.world.ask(&[&["-n", self.name], arguments].concat())
    }

    /// Waits until the field at this JSONPath has this value.
    fn reaches(&self, object: &str, path: &str, value: &str) {
        let path = format!("jsonpath={{{path}}}");
        until(&format!("{object} has {value}"), || {
            let found = self.run(&["get", object, "-o", &path]);
            found.stdout == value
        });
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // kubectl waits until everything in the namespace is deleted, including claims.
        self.world.run(&["delete", "namespace", self.name, "--timeout=60s"]);
    }
}

#[test]
fn jobs_and_stateful_sets_run_and_pods_can_be_entered() {
    if tools::kubectl().is_none() {
        return;
    }
    let space = Namespace::new("workloads");
    let manifest = space.world.file("workloads.yaml", WORKLOADS);
    space.ask(&["apply", "-f", &manifest]);

    space.reaches("job/counts", ".status.succeeded", "3");
    space.reaches("job/counts", ".status.conditions[?(@.type==\"Complete\")].status", "True");
    space.reaches("job/fails", ".status.conditions[?(@.type==\"Failed\")].reason", "BackoffLimitExceeded");
    assert_eq!(space.ask(&["logs", "job/counts"]), "done\n");

    space.reaches("statefulset/numbered", ".status.readyReplicas", "2");
    space.reaches("pvc/data-numbered-1", ".status.phase", "Bound");
    for name in ["numbered-0", "numbered-1"] {
        assert_eq!(space.ask(&["exec", name, "--", "cat", "/data/name"]), format!("{name}\n"));
    }
    let volume = space.ask(&["get", "pvc", "data-numbered-0", "-o", "jsonpath={.spec.volumeName}"]);
    assert_eq!(space.ask(&["get", "pv", &volume, "-o", "jsonpath={.status.phase}"]), "Bound");
    space.ask(&["scale", "statefulset/numbered", "--replicas=1"]);
    space.reaches("statefulset/numbered", ".status.replicas", "1");
    assert!(space.run(&["get", "pod", "numbered-1"]).stderr.contains("NotFound"));

    entered(&space);
    measured(&space);
    // The namespace can be deleted with pods and claims in it.
    space.ask(&["delete", "namespace", space.name, "--timeout=60s"]);
}

/// Tests `exec` by both protocols, `cp` and `attach`.
fn entered(space: &Namespace) {
    space.reaches("pod/shell", ".status.phase", "Running");
    for websockets in ["true", "false"] {
        let kubectl = || {
            let mut command = space.world.kubectl();
            command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets).args(["-n", space.name, "exec"]);
            command
        };
        let ended = run(kubectl().args(["shell", "--", "sh", "-c", "echo $GREETING; echo oh >&2; exit 3"]));
        assert_eq!(ended.status.code(), Some(3), "{ended:#?}");
        assert_eq!(ended.stdout, "hello\n", "{ended:#?}");
        assert!(ended.stderr.starts_with("oh\n"), "{ended:#?}");
        let mut piped = Command::new("sh");
        let script = "head -c 200000 /dev/zero | \"$0\" --kubeconfig \"$1\" -n \"$2\" exec -i shell -- wc -c";
        piped.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets).args(["-c", script]);
        piped.arg(tools::kubectl().unwrap()).arg(&space.world.kubeconfig).arg(space.name);
        let counted = run(&mut piped);
        assert_eq!(counted.stdout.trim(), "200000", "{counted:#?}");
    }
    let missing = space.run(&["exec", "shell", "--", "no-such-program"]);
    assert!(missing.stderr.contains("executable file not found"), "{missing:#?}");
    let file = space.world.file("copied", "content\n");
    space.ask(&["cp", &file, &format!("{}/shell:/scratch/copied", space.name)]);
    assert_eq!(space.ask(&["exec", "shell", "--", "cat", "/scratch/copied"]), "content\n");
    let back = format!("{file}.back");
    space.ask(&["cp", &format!("{}/shell:/scratch/copied", space.name), &back]);
    assert_eq!(fs::read_to_string(back).unwrap(), "content\n");
    assert_eq!(space.ask(&["exec", "shell", "--", "cat", "/secret/key"]), "value");
    let attached =
        run(Command::new("timeout").args(["-s", "INT", "3"]).arg(tools::kubectl().unwrap()).args([
            "--kubeconfig",
            space.world.kubeconfig.to_str().unwrap(),
            "-n",
            space.name,
            "attach",
            "shell",
        ]));
    assert!(attached.stdout.contains("tick\n"), "{attached:#?}");
}

/// Tests `top` and `describe node`.
fn measured(space: &Namespace) {
    let pods = space.ask(&["top", "pods", "--containers"]);
    assert!(pods.lines().any(|line| line.starts_with("shell")), "{pods}");
    let nodes = space.ask(&["top", "nodes"]);
    assert!(nodes.contains("longboat-local"), "{nodes}");
    let described = space.ask(&["describe", "node", "longboat-local"]);
    let described = described.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["MemoryPressure False", "MountNamespaces ", "Ready True", "Taints: <none>"] {
        assert!(described.contains(part), "{part:?} in {described}");
    }
}

#[test]
fn pods_wait_for_a_node_that_takes_them() {
    if tools::kubectl().is_none() {
        return;
    }
    let space = Namespace::new("placement");
    // Without this label, the node would pretend to have the one that the pod selects.
    space.ask(&["label", "node", "longboat-local", "disk=hdd"]);
    let selective = r#"{"spec": {"nodeSelector": {"disk": "ssd"}}}"#;
    let sleep = ["--image=none", "--command", "--", "sleep", "1000"];
    space.ask(&[&["run", "selective", "--overrides", selective], &sleep[..]].concat());
    let message = ".status.conditions[?(@.type==\"PodScheduled\")].message";
    let said = |reason: &str| {
        format!(
            "0/1 nodes are available: 1 node(s) {reason}. preemption: 0/1 nodes are available: 1 Preemption is not \
             helpful for scheduling."
        )
    };
    space.reaches("pod/selective", message, &said("didn't match Pod's node affinity/selector"));
    space.ask(&["label", "node", "longboat-local", "disk=ssd", "--overwrite"]);
    space.reaches("pod/selective", ".status.phase", "Running");
    space.ask(&["label", "node", "longboat-local", "disk-"]);

    space.ask(&["cordon", "longboat-local"]);
    space.ask(&[&["run", "late"], &sleep[..]].concat());
    space.reaches("pod/late", message, &said("were unschedulable"));
    space.ask(&["uncordon", "longboat-local"]);
    space.reaches("pod/late", ".status.phase", "Running");

    space.ask(&["taint", "node", "longboat-local", "team=a:NoSchedule"]);
    space.ask(&[&["run", "foreign"], &sleep[..]].concat());
    space.reaches("pod/foreign", message, &said("had untolerated taint {team: a}"));
    space.ask(&["taint", "node", "longboat-local", "team-"]);
    space.reaches("pod/foreign", ".status.phase", "Running");
}

#[test]
fn what_is_not_run_says_so() {
    if tools::kubectl().is_none() {
        return;
    }
    let space = Namespace::new("unrun");
    let daemon = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: everywhere}\nspec: {selector: {matchLabels: \
                  {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: main, image: none}]}}}\n";
    let manifest = space.world.file("daemon.yaml", daemon);
    let applied = space.run(&["apply", "-f", &manifest]);
    assert!(applied.stderr.contains("Warning: kind DaemonSet does not run on this machine"), "{applied:#?}");
    let cron = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec: {schedule: '0 3 * * *', jobTemplate: \
                {spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: none}]}}}}}\n";
    let manifest = space.world.file("cron.yaml", cron);
    let applied = space.run(&["apply", "-f", &manifest]);
    assert!(applied.stderr.contains("Warning: kind CronJob does not run on this machine"), "{applied:#?}");
    for kind in ["DaemonSet", "CronJob"] {
        until("an event", || {
            let reasons = "jsonpath={.items[*].reason}";
            let of = format!("--field-selector=involvedObject.kind={kind}");
            let events = space.ask(&["get", "events", &of, "-o", reasons]);
            events.contains("NotRun")
        });
    }
    space.ask(&["run", "cache", "--image=redis"]);
    space.reaches("pod/cache", ".status.containerStatuses[0].state.waiting.reason", "NoLocalRole");
    let waiting = "jsonpath={.status.containerStatuses[0].state.waiting.message}";
    let message = space.ask(&["get", "pod", "cache", "-o", waiting]);
    assert!(
        message.contains("redis") && message.contains("Set a command that exists on this machine"),
        "{message}"
    );
    let debugged = space.run(&["debug", "cache", "--image=busybox", "--", "ls"]);
    assert!(debugged.stderr.contains("use `kubectl exec`"), "{debugged:#?}");
}

#[test]
fn accounts_have_the_rights_of_their_roles_and_no_more() {
    if tools::kubectl().is_none() {
        return;
    }
    let space = Namespace::new("accounts");
    space.ask(&["create", "serviceaccount", "reader"]);
    let as_reader = "--as=system:serviceaccount:accounts:reader";
    let refused = space.run(&["get", "pods", as_reader]);
    let expected = "Error from server (Forbidden): pods is forbidden: User \"system:serviceaccount:accounts:reader\" \
                    cannot list resource \"pods\" in API group \"\" in the namespace \"accounts\"\n";
    assert_eq!(refused.stderr, expected);
    space.ask(&["create", "role", "reads", "--verb=get,list", "--resource=pods"]);
    space.ask(&["create", "rolebinding", "reads", "--role=reads", "--serviceaccount=accounts:reader"]);
    space.ask(&["get", "pods", as_reader]);
    assert_eq!(space.run(&["auth", "can-i", "list", "pods", as_reader]).stdout.trim(), "yes");
    assert_eq!(space.run(&["auth", "can-i", "get", "secrets", as_reader]).stdout.trim(), "no");

    let token = space.ask(&["create", "token", "reader"]);
    let with_token = format!("--token={}", token.trim());
    let config = space.world.folder.path().join("no-user");
    let admin = fs::read_to_string(&space.world.kubeconfig).unwrap();
    let mut admin: serde_json::Value = serde_json::from_str(&admin).unwrap();
    admin["users"][0]["user"] = serde_json::json!({});
    fs::write(&config, admin.to_string()).unwrap();
    let kubectl = |arguments: &[&str]| {
        run(space
            .world
            .kubectl()
            .env("KUBECONFIG", &config)
            .args(["-n", space.name, &with_token])
            .args(arguments))
    };
    assert!(kubectl(&["get", "pods"]).status.success());
    assert!(kubectl(&["get", "secrets"]).stderr.contains("Forbidden"));
    assert!(kubectl(&["get", "pods", "--as=admin"]).stderr.contains("cannot impersonate"));

    // A process in a pod has the rights of the pod's service account, not of the administrator.
    let pods = space.world.folder.path();
    let mut configs = Vec::new();
    find(pods, "kubeconfig", &mut configs);
    let of_pods: Vec<_> = configs.iter().filter(|path| path.to_string_lossy().contains("/pods/")).collect();
    assert!(!of_pods.is_empty(), "{configs:?}");
    for path in of_pods {
        let asked = run(space.world.kubectl().env("KUBECONFIG", path).args(["get", "secrets", "-A"]));
        assert!(asked.stderr.contains("Forbidden"), "{}: {asked:#?}", path.display());
    }
}

fn find(folder: &std::path::Path, name: &str, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            find(&entry.path(), name, found);
        } else if entry.file_name() == name {
            found.push(entry.path());
        }
    }
}
