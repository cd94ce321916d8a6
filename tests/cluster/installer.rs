//! Installs with the built binary and stands in for the missing parts of a cluster: the nodes that would run the controller,
//! and the Deployment controller that would report it available.

use std::{os::unix::fs::symlink, process::Command};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::{
    api, binary,
    program::{Ended, Running, run},
    server::{Program, Server, User, free_ports},
    wait::until,
};

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/kserve/deployments/llmisvc-controller-manager";

/// The ports of a test's controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) webhooks: u16,
    pub(crate) probes: u16,
}

// === impl Ports ===

impl Ports {
    pub(crate) fn free() -> Self {
        let [webhooks, probes] = free_ports();
        Self { webhooks, probes }
    }
}

/// Returns the command `longboat VERB …` as the administrator. The cluster has no Service network, so webhooks are reached by
/// address, and metrics are off.
pub(crate) fn longboat(server: &Server, verb: &str, ports: Ports, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary::longboat());
    command.arg(verb).env("KUBECONFIG", &server.kubeconfig).env("HOME", &server.folder);
    if verb == "install" {
        command.arg(format!("--set=webhookUrl=https://127.0.0.1:{}", ports.webhooks));
        command.arg("--set=metrics.enabled=false");
        command.arg(format!("--set=image={}", longboat_install::Values::default().image));
    }
    command.args(arguments);
    command
}

/// Runs `longboat install` on a cluster without a controller, and runs the controller as the Deployment specifies.
pub(crate) fn install(server: &Server, ports: Ports, arguments: &[&str]) -> (Ended, Program) {
    let mut installing = Running::start(&mut longboat(server, "install", ports, arguments));
    let deployment = until("the controller's Deployment is written", || {
        let ended = installing.has_ended();
        assert!(!ended, "`longboat install` gave up: {}", installing.stderr());
        Some(server.api.get(DEPLOYMENT)).filter(|answer| answer.status == 200)
    });
    let deployment = deployment.ok();
    let controller = start_controller(server, &deployment, ports);
    make_available(server);
    (installing.end(), controller)
}

/// Runs `longboat VERB …` to its end.
pub(crate) fn ask(server: &Server, verb: &str, ports: Ports, arguments: &[&str]) -> Ended {
    run(&mut longboat(server, verb, ports, arguments))
}

/// Writes the Deployment's status as the Deployment controller does when enough pods are ready.
pub(crate) fn make_available(server: &Server) {
    let deployment = server.api.get(DEPLOYMENT).ok();
    let (replicas, generation) = (&deployment["spec"]["replicas"], &deployment["metadata"]["generation"]);
    let status = json!({"status": {
        "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas,
    }});
    server.api.merge(&format!("{DEPLOYMENT}/status"), &status).ok();
}

/// Starts the controller as the Deployment's pods would run it: the same program name, arguments, environment and service
/// account, and a folder for each mounted Secret. Waits until the controller is ready.
pub(crate) fn start_controller(server: &Server, deployment: &Value, ports: Ports) -> Program {
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let account = pod["serviceAccountName"].as_str().unwrap();
    let kubeconfig = server.folder.join("controller.kubeconfig");
    server.write_kubeconfig(&kubeconfig, &User::Token(&server.token(account)));
    let name = container["command"][0].as_str().unwrap().trim_start_matches('/');
    let program = server.folder.join(name);
    symlink(binary::longboat(), &program).unwrap();
    let mounts = mounted(server, pod);
    let controller = Program::start(&program, &server.folder.join("controller.log"), |command| {
        command
            .args(container["args"].as_array().unwrap().iter().map(|argument| {
                let argument = argument.as_str().unwrap();
                mounts
                    .iter()
                    .fold(argument.to_owned(), |argument, (path, folder)| argument.replace(path, folder))
            }))
            .args(["--webhook-host=127.0.0.1", "--webhook-san=127.0.0.1"])
            .args([format!("--webhook-port={}", ports.webhooks)])
            .arg(format!("--health-probe-addr=127.0.0.1:{}", ports.probes))
            .env("KUBECONFIG", &kubeconfig)
            .env("POD_NAMESPACE", "kserve");
        for variable in container["env"].as_array().unwrap() {
            if let Some(value) = variable["value"].as_str() {
                command.env(variable["name"].as_str().unwrap(), value);
            }
        }
    });
    until("the controller is ready", || {
        controller.assert_running();
        api::status_of(&format!("http://127.0.0.1:{}/readyz", ports.probes)).filter(|status| *status == 200)
    });
    controller
}

/// Writes each Secret that a pod mounts to a folder. Returns pairs of mount path and folder.
fn mounted(server: &Server, pod: &Value) -> Vec<(String, String)> {
    let secrets = pod["volumes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|volume| Some((volume["name"].as_str()?, volume["secret"]["secretName"].as_str()?)));
    let mounts = pod["containers"][0]["volumeMounts"].as_array();
    secrets
        .map(|(volume, name)| {
            let folder = server.folder.join("mounted").join(volume);
            std::fs::create_dir_all(&folder).unwrap();
            let secret = server.api.get(&format!("/api/v1/namespaces/kserve/secrets/{name}")).ok();
            for (key, value) in secret["data"].as_object().unwrap() {
                let bytes = BASE64_STANDARD.decode(value.as_str().unwrap()).unwrap();
                std::fs::write(folder.join(key), bytes).unwrap();
            }
            let mount = mounts.into_iter().flatten().find(|mount| mount["name"] == volume).unwrap();
            (mount["mountPath"].as_str().unwrap().to_owned(), folder.display().to_string())
        })
        .collect()
}
