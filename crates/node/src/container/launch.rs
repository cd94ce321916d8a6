//! Turns a container of a manifest into a command line on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;
use longboat_download::address::Address;

use super::expand::expand;
use super::host::{Host, PodSite, environment};
use super::paths::PathMap;
use super::program::{find_in, resolve};
use super::roles::{self, DOWNLOADS_VARIABLE};
use crate::mounts::Mounts;

/// A command line, ready to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: PathBuf,
    pub(super) mounts: Option<Arc<Mounts>>,
    pub(super) paths: PathMap,
}

/// Why a container has no command to run; shown as the waiting reason `NoLocalRole`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error(
        "image `{image}` does not run on this machine, because images are not pulled here; Longboat runs \
         only these: {}. Set a command that exists on this machine (in the manifest, or with `up --image`), or run this \
         service on a cluster",
        roles::known_images()
    )]
    Image { image: String },
    #[error(
        "command `{command}` (image `{image}`) not found: it is neither a program on this machine nor a \
         role of Longboat ({}). Install it, or run this service on a cluster",
        roles::LINKS.join(", ")
    )]
    Command { command: String, image: String },
    #[error("exec without a command")]
    EmptyExec,
}

/// Builds the command line of a container. `env` comes from the manifest, and its paths are not rewritten yet. The process
/// starts in `scratch` if the manifest's working directory does not exist here.
pub(crate) fn launch(
    host: &Host,
    site: &PodSite,
    container: &Container,
    env: &BTreeMap<String, String>,
    paths: &PathMap,
    scratch: &Path,
) -> Result<Launch, LaunchError> {
    let mut paths = paths.clone();
    let mut full_env = environment(host, site, env, &paths);
    let expanded = |list: &Option<Vec<String>>| -> Vec<String> {
        list.iter().flatten().map(|text| expand(text, |name| env.get(name).map(String::as_str))).collect()
    };
    let image = container.image.as_deref().unwrap_or_default();
    let command = match host.images.get(roles::repository_name(image)) {
        Some(own) if container.command.is_none() => own.clone(),
        _ => expanded(&container.command),
    };
    let args = expanded(&container.args);
    let search = full_env.get("PATH").map_or(host.path.as_str(), String::as_str);

    let (program, leading, rest) = if let Some((first, more)) = command.split_first() {
        let (program, leading, skip) = resolve(host, first, more, search, &paths)
            .ok_or_else(|| LaunchError::Command { command: first.clone(), image: image.to_owned() })?;
        (program, leading, more[skip..].iter().chain(&args).cloned().collect())
    } else if let Some((link, leading)) = roles::for_image(image) {
        (host.bin_dir.join(link), leading, args)
    } else if let Some((program, args)) = modelcar(host, site, container, image, search) {
        (program, &[][..], args)
    } else {
        return Err(LaunchError::Image { image: image.to_owned() });
    };
    let fetches = program == host.bin_dir.join(roles::FETCHES);
    if fetches {
        // A download shares files with the cache by hard links, and links do not lead from one mount to another.
        paths = paths.bind(|_, _| false);
        full_env = environment(host, site, env, &paths);
        host.credentials.give(env, &mut full_env);
    }
    if program == host.bin_dir.join(roles::PICKER) {
        if host.gateway_picks && gateway_knows(container) {
            full_env.insert("LONGBOAT_GATEWAY_PICKS".to_owned(), "true".to_owned());
        }
        if let Some(folder) = &host.traces {
            let folder = folder.to_string_lossy().into_owned();
            full_env.entry("LONGBOAT_WRITE_TRACE".to_owned()).or_insert(folder);
        }
    }
    let mut args = words(leading, &rest, &paths);
    // Other users of this machine see the arguments of a process, but not its variables.
    if fetches
        && args.iter().any(|arg| Address::parse(arg).credentials().is_some())
        && !args.iter().any(|arg| arg.starts_with('-'))
    {
        full_env.insert(DOWNLOADS_VARIABLE.to_owned(), std::mem::take(&mut args).join("\n"));
    }
    let cwd = container
        .working_dir
        .as_deref()
        .filter(|dir| paths.outside(dir).is_dir())
        .map_or_else(|| scratch.to_owned(), |dir| PathBuf::from(paths.rewrite(dir)));
    Ok(Launch { program, args, env: full_env, cwd, mounts: host.mounts.clone(), paths })
}

impl Launch {
    /// Builds the command line of an exec probe or hook in this container.
    pub(crate) fn exec(&self, host: &Host, command: &[String]) -> Result<Self, LaunchError> {
        let (first, more) = command.split_first().ok_or(LaunchError::EmptyExec)?;
        let search = self.env.get("PATH").map_or(host.path.as_str(), String::as_str);
        let (program, leading, skip) = resolve(host, first, more, search, &self.paths)
            .ok_or_else(|| LaunchError::Command { command: first.clone(), image: String::new() })?;
        let args = words(leading, &more[skip..], &self.paths);
        Ok(Self { program, args, ..self.clone() })
    }

    /// Starts this program through another program of this machine. Changes nothing and returns `false` if that program does
    /// not exist.
    pub(crate) fn lead_by(&mut self, program: &str, arguments: &[&str], host: &Host) -> bool {
        let Some(found) = find_in(&host.path, program) else { return false };
        let led = std::mem::replace(&mut self.program, found).to_string_lossy().into_owned();
        let arguments = arguments.iter().map(|argument| (*argument).to_owned());
        self.args.splice(0..0, arguments.chain([led]));
        true
    }
}

/// Returns the arguments of a role, and those of a manifest with paths of this machine.
fn words(leading: &[&str], given: &[String], paths: &PathMap) -> Vec<String> {
    let leading = leading.iter().map(|arg| (*arg).to_owned());
    leading.chain(given.iter().map(|arg| paths.rewrite(arg))).collect()
}

/// Replaces KServe's modelcar containers, which run a shell inside the model's own image: the image does not exist here. The
/// init container becomes a download of that image into the volume that the model server mounts. The other container only
/// has to keep running. KServe: pkg/utils/storage.go ConfigureModelcarToContainer.
fn modelcar(
    host: &Host,
    site: &PodSite,
    container: &Container,
    image: &str,
    search: &str,
) -> Option<(PathBuf, Vec<String>)> {
    let target = site.volumes.get("kserve-provision-location")?.join("models");
    match container.name.as_str() {
        "modelcar-init" => {
            let args = vec![format!("oci://{image}"), target.to_string_lossy().into_owned()];
            Some((host.bin_dir.join(roles::FETCHES), args))
        }
        "modelcar" => Some((find_in(search, "sleep")?, vec!["2147483647".to_owned()])),
        _ => None,
    }
}

/// Whether the gateway reads the arguments of a picker from its pod as they are: there is a command, and no reference to a variable.
fn gateway_knows(container: &Container) -> bool {
    let words = || [&container.command, &container.args].into_iter().flatten().flatten();
    container.command.as_ref().is_some_and(|command| !command.is_empty())
        && !words().any(|word| word.contains("$("))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::options::Engine;

    fn host(engine: Engine) -> Host {
        let vars =
            [("PATH", "/usr/bin:/bin"), ("KUBECONFIG", "/other"), ("LC_ALL", "C"), ("SECRET_OF_HOST", "x")];
        Host::new(
            "/lb/bin".into(),
            engine,
            false,
            "node-1".into(),
            vars.map(|(k, v)| (k.to_owned(), v.to_owned())),
        )
    }

    fn site() -> PodSite {
        PodSite {
            pod_name: "p".into(),
            pod_ip: "127.64.0.1".into(),
            kubeconfig: "/lb/pods/u/kubeconfig".into(),
            api_host: "127.0.0.1".into(),
            api_port: "6443".into(),
            volumes: [("kserve-provision-location".to_owned(), "/lb/pods/u/volumes/kpl".into())].into(),
        }
    }

    fn run(container: Value) -> Result<Launch, LaunchError> {
        let mut container = container;
        container["name"] = container.get("name").cloned().unwrap_or(json!("main"));
        let container: Container = serde_json::from_value(container).unwrap();
        let paths = PathMap::new([
            ("/tmp".to_owned(), "/lb/v/tmp".to_owned()),
            ("/mnt/models".to_owned(), "/lb/v/m".to_owned()),
        ]);
        let env = [("M".to_owned(), "/mnt/models".to_owned())].into();
        launch(&host(Engine::Simulator), &site(), &container, &env, &paths, Path::new("/lb/scratch"))
    }

    #[test]
    fn a_picker_whose_arguments_the_gateway_reads_leaves_it_the_picking() {
        let leaves = |gateway_picks: bool, container: Value| {
            let host = Host { gateway_picks, ..host(Engine::Simulator) };
            let container: Container = serde_json::from_value(container).unwrap();
            let (env, paths) = ([("P".to_owned(), "pool".to_owned())].into(), PathMap::default());
            let launch = launch(&host, &site(), &container, &env, &paths, Path::new("/tmp")).unwrap();
            launch.env.contains_key("LONGBOAT_GATEWAY_PICKS")
        };
        let picker = json!({"name": "main", "command": ["/app/epp", "--pool-name"], "args": ["pool"]});
        assert!(leaves(true, picker.clone()));
        assert!(!leaves(false, picker));
        for other in [
            json!({"name": "main", "command": ["/app/epp", "--pool-name"], "args": ["$(P)"]}),
            json!({"name": "main", "image": "epp", "args": ["--pool-name", "pool"]}),
            json!({"name": "main", "command": ["vllm"]}),
        ] {
            assert!(!leaves(true, other.clone()), "{other}");
        }
    }

    #[test]
    fn only_pickers_are_told_where_traces_go_and_the_manifest_wins() {
        let told = |command: &str, env: &[(&str, &str)]| {
            let host = Host { traces: Some("/traces".into()), ..host(Engine::Simulator) };
            let container: Container =
                serde_json::from_value(json!({"name": "main", "command": [command]})).unwrap();
            let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let paths = PathMap::default();
            let launch = launch(&host, &site(), &container, &env, &paths, Path::new("/tmp")).unwrap();
            launch.env.get("LONGBOAT_WRITE_TRACE").cloned()
        };
        assert_eq!(told("/app/epp", &[]).as_deref(), Some("/traces"));
        assert_eq!(told("/app/epp", &[("LONGBOAT_WRITE_TRACE", "/own")]).as_deref(), Some("/own"));
        assert_eq!(told("vllm", &[]), None);
    }

    #[test]
    fn entry_points_and_images_with_a_role_run_its_link() {
        let epp =
            run(json!({"image": "x", "command": ["/app/epp", "--pool-name", "p"], "args": ["--dir=/tmp"]}))
                .unwrap();
        assert_eq!(epp.program, Path::new("/lb/bin/epp"));
        assert_eq!(epp.args, ["--pool-name", "p", "--dir=/lb/v/tmp"]);
        let fetch =
            run(json!({"image": "kserve/storage-initializer:latest", "args": ["hf://a/b", "/mnt/models"]}))
                .unwrap();
        assert_eq!(fetch.program, Path::new("/lb/bin/storage-initializer"));
        assert_eq!(fetch.args, ["hf://a/b", "/lb/v/m"]);
        let password = ["https://u:p@h/m.tar", "/mnt/models"];
        let fetch = run(json!({"image": "kserve/storage-initializer:latest", "args": password})).unwrap();
        assert_eq!((fetch.args.len(), &*fetch.env[DOWNLOADS_VARIABLE]), (0, "https://u:p@h/m.tar\n/lb/v/m"));
        let vllm = run(json!({"image": "vllm/vllm-openai:v1", "args": ["--model", "$(M)"]})).unwrap();
        assert_eq!(vllm.args, ["serve", "--model", "/lb/v/m"]);
        let sglang =
            run(json!({"command": ["python3", "-m", "sglang.launch_server", "--port", "1"]})).unwrap();
        assert_eq!(sglang.program, Path::new("/lb/bin/longboat"));
        assert_eq!(sglang.args, ["sim", "--simulated-engine=sglang", "--port", "1"]);
        let llama = run(json!({"command": ["/app/llama-server", "--port", "1"]})).unwrap();
        assert_eq!(llama.args, ["sim", "--simulated-engine=llamacpp", "--port", "1"]);
        let module = ["python3", "-m", "vllm.entrypoints.openai.api_server", "--port", "1"];
        let python = run(json!({"image": "x", "command": module})).unwrap();
        assert_eq!(
            (python.program, python.args),
            ("/lb/bin/vllm".into(), vec!["serve".into(), "--port".into(), "1".into()])
        );
    }

    #[test]
    fn programs_of_this_machine_run_with_rewritten_scripts() {
        let script = "cat /mnt/models/x; exec vllm serve /mnt/models";
        let bash =
            run(json!({"image": "x", "command": ["/bin/sh", "-c", script, "--"], "args": ["$(M)", "$(NO)"]}))
                .unwrap();
        assert_eq!(bash.program, Path::new("/bin/sh"));
        assert_eq!(bash.args, ["-c", "cat /lb/v/m/x; exec vllm serve /lb/v/m", "--", "/lb/v/m", "$(NO)"]);
    }

    #[test]
    fn what_is_not_here_is_refused_with_what_is_known() {
        let image = run(json!({"image": "docker.io/library/redis:7"})).unwrap_err().to_string();
        assert!(image.contains("redis") && image.contains("storage-initializer"), "{image}");
        let command = run(json!({"image": "x", "command": ["/opt/none/such"]})).unwrap_err().to_string();
        assert!(command.contains("/opt/none/such"), "{command}");
    }

    #[test]
    fn an_image_runs_the_command_that_the_user_gives_unless_the_manifest_has_one() {
        let mut host = host(Engine::Simulator);
        host.images = BTreeMap::from([("echo".to_owned(), vec!["/bin/sh".to_owned(), "-e".to_owned()])]);
        let run = |container: Value| {
            let container: Container = serde_json::from_value(container).unwrap();
            launch(&host, &site(), &container, &BTreeMap::new(), &PathMap::default(), Path::new("/tmp"))
        };
        let started =
            run(json!({"name": "c", "image": "registry.example/a/echo:v1", "args": ["x"]})).unwrap();
        assert_eq!(
            (started.program.as_path(), started.args),
            (Path::new("/bin/sh"), vec!["-e".to_owned(), "x".into()])
        );
        let started = run(json!({"name": "c", "image": "echo", "command": ["/bin/cat"]})).unwrap();
        assert_eq!(started.program, Path::new("/bin/cat"));
        assert!(run(json!({"name": "c", "image": "other"})).is_err());
    }

    #[test]
    fn modelcar_containers_fetch_the_image_and_stay() {
        let init =
            run(json!({"name": "modelcar-init", "image": "reg/model:1", "args": ["sh", "-c", "…"]})).unwrap();
        assert_eq!(init.args, ["oci://reg/model:1", "/lb/pods/u/volumes/kpl/models"]);
        assert!(
            run(json!({"name": "modelcar", "image": "reg/model:1", "args": ["sh"]}))
                .unwrap()
                .program
                .ends_with("sleep")
        );
    }

    #[test]
    fn the_environment_has_the_node_additions_and_little_of_the_host() {
        let env = run(json!({"image": "epp"})).unwrap().env;
        assert_eq!(env["PATH"], "/lb/bin:/usr/bin:/bin");
        assert_eq!(env["KUBECONFIG"], "/lb/pods/u/kubeconfig");
        assert_eq!(env["LONGBOAT_POD_IP"], "127.64.0.1");
        assert_eq!(env["TMPDIR"], "/lb/v/tmp");
        assert_eq!(env["M"], "/lb/v/m");
        assert_eq!(env["LC_ALL"], "C");
        assert_eq!(env["LONGBOAT_FETCH"], "skip");
        assert_eq!(env["LONGBOAT_LOG_FORMAT"], "text");
        assert!(!env.contains_key("SECRET_OF_HOST"));
        let real = host(Engine::Command("my-engine".into()));
        assert!(real.inherited.iter().any(|(key, _)| key == "SECRET_OF_HOST"));
        assert!(!real.inherited.iter().any(|(key, _)| key == "KUBECONFIG"));
    }

    #[test]
    fn only_downloads_have_the_credentials_of_the_user() {
        let variables = [("AWS_ACCESS_KEY_ID", "AKIA"), ("PATH", "/usr/bin:/bin")];
        let variables = variables.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let host = Host::new("/lb/bin".into(), Engine::Simulator, false, "node-1".into(), variables);
        let key = |container: Value| {
            let container = serde_json::from_value(container).unwrap();
            let (env, paths) = (BTreeMap::new(), PathMap::new([]));
            let launch = launch(&host, &site(), &container, &env, &paths, Path::new("/lb/scratch"));
            launch.unwrap().env.get("AWS_ACCESS_KEY_ID").cloned()
        };
        let image = "kserve/storage-initializer:v1";
        let args = json!(["s3://b/m", "/mnt/models"]);
        assert_eq!(key(json!({"name": "i", "image": image, "args": args})).as_deref(), Some("AKIA"));
        assert_eq!(
            key(json!({"name": "modelcar-init", "image": "m", "args": ["sh"]})).as_deref(),
            Some("AKIA")
        );
        assert_eq!(key(json!({"name": "i", "image": "epp"})), None);
        assert_eq!(key(json!({"name": "i", "image": image, "command": ["/bin/sh"]})), None);
    }

    #[test]
    fn an_exec_runs_in_the_environment_of_its_container() {
        let main = run(json!({"image": "epp"})).unwrap();
        let exec =
            main.exec(&host(Engine::Simulator), &["/bin/sh".into(), "-c".into(), "ls /tmp".into()]).unwrap();
        assert_eq!(
            (exec.args, exec.env),
            (vec!["-c".to_owned(), "ls /lb/v/tmp".to_owned()], main.env.clone())
        );
        assert_eq!(main.exec(&host(Engine::Simulator), &[]), Err(LaunchError::EmptyExec));
    }
}
