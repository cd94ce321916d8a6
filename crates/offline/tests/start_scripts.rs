//! Names of models and adapters reach the model server as they are, whatever characters they have. The start scripts that
//! `render` prints run in a real bash, with a fake server.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use longboat_offline::{Settings, render, scene::Scene};
use serde_json::{Value, json};

/// Names that a shell, the kubelet or both would change or run. `PROOF` stands for a file that no command may create.
const NAMES: [&str; 11] = [
    "x; touch PROOF; $(touch PROOF) `touch PROOF` #",
    "a'; touch PROOF; '",
    "a b  c",
    "it's",
    "$HOME ${HOME} $(HOME) $$(HOME) $$",
    r"back\slash \\ \n \$(touch PROOF)",
    "~/* ? [a] {b,c} !d",
    "a&touch PROOF&",
    "a|touch PROOF",
    "a>PROOF<b",
    "模型 ü",
];

/// The shapes that have start scripts of their own.
fn shapes() -> [Value; 3] {
    let grid = json!({"data": 2, "dataLocal": 1});
    [
        json!({}),
        json!({"prefill": {}}),
        json!({"parallelism": grid, "worker": {}, "prefill": {"parallelism": grid, "worker": {}}}),
    ]
}

/// Returns the command lines of all containers that start a model server through a shell.
fn command_lines(value: &Value, found: &mut Vec<Vec<String>>) {
    match value {
        Value::Object(fields) => {
            let words = |key: &str| -> Vec<String> {
                fields.get(key).map(|list| serde_json::from_value(list.clone()).unwrap()).unwrap_or_default()
            };
            if fields.get("name").is_some_and(|name| name == "main")
                && fields.get("command").is_some_and(|command| command[0] == "/bin/bash")
            {
                found.push([words("command"), words("args")].concat());
            }
            fields.values().for_each(|field| command_lines(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| command_lines(item, found)),
        _ => {}
    }
}

/// What the kubelet does with the variables of a container that has only `HOME`.
fn expanded(word: &str) -> String {
    let mut text = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('$') {
        let (before, after) = (&rest[..at], &rest[at..]);
        text.push_str(before);
        let (value, length) = if after.starts_with("$$") {
            ("$", 2)
        } else if after.starts_with("$(HOME)") {
            ("/home/expanded", "$(HOME)".len())
        } else {
            ("$", 1)
        };
        text.push_str(value);
        rest = &after[length..];
    }
    text + rest
}

struct Workspace {
    folder: PathBuf,
}

impl Workspace {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("longboat-start-scripts-{}", std::process::id()));
        fs::create_dir_all(folder.join("bin")).unwrap();
        let workspace = Self { folder };
        // Arguments end with a zero byte, which no argument contains.
        workspace.program(
            "vllm",
            &format!(
                "if [ \"$1\" = --version ]; then echo 'vllm 0.22.0'; exit; fi\nprintf '%s\\0' \"$@\" > {}",
                workspace.folder.join("arguments").display()
            ),
        );
        workspace.program("getent", "echo '10.0.0.9  leader'");
        workspace
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.folder.join("bin").join(name);
        fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn proof(&self) -> PathBuf {
        self.folder.join("proof")
    }

    /// Returns the arguments of the server that a command line starts.
    fn started(&self, line: &[String]) -> Vec<String> {
        let line: Vec<String> = line.iter().map(|word| expanded(word)).collect();
        let out = self.folder.join("arguments");
        let _ = fs::remove_file(&out);
        let path = format!("{}:{}", self.folder.join("bin").display(), std::env::var("PATH").unwrap());
        let output = Command::new(&line[0])
            .args(&line[1..])
            .current_dir(&self.folder)
            .env("PATH", path)
            .env("HOME", "/home/of-the-shell")
            .output()
            .unwrap();
        assert!(output.status.success(), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
        let text = fs::read_to_string(&out).unwrap();
        text.split_terminator('\0').map(ToOwned::to_owned).collect()
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the arguments after a flag, up to the next flag.
fn after<'a>(arguments: &'a [String], flag: &str) -> Vec<&'a str> {
    let at = arguments.iter().position(|argument| argument == flag);
    let at = at.unwrap_or_else(|| panic!("no {flag} in {arguments:?}"));
    arguments[at + 1..]
        .iter()
        .map(String::as_str)
        .take_while(|argument| !argument.starts_with("--"))
        .collect()
}

#[test]
fn any_name_of_a_model_or_adapter_is_one_argument_of_the_server() {
    if !Path::new("/bin/bash").exists() {
        longboat_golden::skipped("no /bin/bash");
        return;
    }
    let workspace = Workspace::new();
    let proof = workspace.proof();
    let mut starts = 0;
    for name in NAMES.map(|name| name.replace("PROOF", &proof.display().to_string())) {
        for shape in shapes() {
            let mut service = json!({
                "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
                "metadata": {"name": "chat", "namespace": "team"},
                "spec": shape,
            });
            let adapter = format!("{name}+");
            service["spec"]["model"] = json!({
                "uri": "hf://o/m", "name": name,
                "lora": {"adapters": [{"name": adapter, "uri": "hf://o/a"}]},
            });
            let documents = longboat_manifest::parse("service", &service.to_string()).unwrap();
            let scene = Scene::new(&documents, &Settings::default()).unwrap();
            assert!(!scene.has_errors(), "{:?}", scene.findings);
            let rendered = render::children(&scene, &scene.subjects[0].service).unwrap();
            let mut lines = Vec::new();
            rendered.objects.iter().for_each(|object| command_lines(&object.value, &mut lines));
            assert!(!lines.is_empty());
            for line in lines {
                let arguments = workspace.started(&line);
                let published = format!("publishers/team/models/{name}");
                let served = after(&arguments, "--served-model-name");
                assert!(served == [&name] || served == [&name, &published], "{served:?}");
                let modules: Vec<Value> = after(&arguments, "--lora-modules")
                    .into_iter()
                    .map(|module| serde_json::from_str(module).unwrap())
                    .collect();
                let named: Vec<&str> =
                    modules.iter().map(|module| module["name"].as_str().unwrap()).collect();
                assert_eq!(named, [&adapter, &format!("publishers/team/models/{adapter}")]);
                assert!(!proof.exists(), "{name:?} ran a command");
                starts += 1;
            }
        }
    }
    assert_eq!(starts, NAMES.len() * (1 + 2 + 4));
}
