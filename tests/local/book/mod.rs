//! Runs the console blocks of the book in `docs` in one world, and compares their output with the book.

mod blocks;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::Command,
};

use blocks::{Block, Step, said};
use tempfile::TempDir;

use crate::{local_cluster::LocalCluster, program, tools};

/// Returns paths (below `docs`) and texts of the pages, in the order of the summary.
fn pages() -> Vec<(String, String)> {
    let folder = tools::root().join("docs");
    let summary = fs::read_to_string(folder.join("SUMMARY.md")).unwrap();
    let links = summary.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    links.map(|(target, _)| (target.to_owned(), fs::read_to_string(folder.join(target)).unwrap())).collect()
}

#[test]
fn every_block_with_a_prompt_is_run_or_says_why_not() {
    let mut wrong = Vec::new();
    let mut runnable = 0;
    for (page, text) in pages() {
        for block in blocks::of(&text) {
            let prompts = block.lines.iter().filter(|line| line.starts_with("$ ")).count();
            let fault = match (block.is_console(), block.why_not()) {
                (false, _) if prompts > 0 => "is no console block, and has a prompt",
                (true, Some("")) => "does not say why it is not run",
                (true, None) if !block.lines[0].starts_with("$ ") => "does not begin with a prompt",
                (true, None) => {
                    runnable += prompts;
                    continue;
                }
                _ => continue,
            };
            wrong.push(format!("{page}:{}: the block {fault}", block.place));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(runnable > 30, "the book has {runnable} commands that are run");
}

#[test]
fn the_console_blocks_print_what_the_book_says() {
    if tools::kubectl().is_none() {
        return;
    }
    let pages = pages();
    let steps: Vec<(String, Step)> = pages
        .iter()
        .flat_map(|(page, text)| {
            let runnable = blocks::of(text).into_iter().filter(Block::is_runnable);
            let steps = runnable.flat_map(|block| block.steps());
            steps.map(|step| (page.clone(), step)).collect::<Vec<_>>()
        })
        .collect();
    let reader = Reader::new(&pages);
    // One world serves all the services with which pages begin.
    let served: BTreeSet<&str> = steps.iter().filter_map(|(_, step)| step.served()).collect();
    let served: Vec<String> =
        served.iter().map(|path| reader.folder.path().join(path).to_str().unwrap().to_owned()).collect();
    let world = LocalCluster::start(&served.iter().map(String::as_str).collect::<Vec<_>>());
    let gateway = world.url.split("/default/").next().unwrap().to_owned();
    let mut wrong = Vec::new();
    for (page, step) in &steps {
        let output = if step.served().is_some() {
            world.running.stderr()
        } else {
            let mut command = reader.command(&step.command.replace(blocks::GATEWAY, &gateway));
            command.env("KUBECONFIG", &world.kubeconfig);
            let ended = program::run(&mut command);
            if !step.may_end_with(ended.status.code()) {
                wrong.push(format!("{page}:{}: {}\n{ended:#?}", step.place, step.command));
            }
            ended.stdout
        };
        let output = output.replace(&gateway, blocks::GATEWAY);
        if let Some(line) =
            step.output.iter().try_fold(output.as_str(), |rest, line| said(rest, line).ok_or(line)).err()
        {
            wrong.push(format!(
                "{page}:{}: {}\ndoes not print: {line}\nbut: {output}",
                step.place, step.command
            ));
        }
    }
    wrong.extend(untold_metrics(&world));
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// A simulated reader who types the commands of the book.
struct Reader {
    /// The working directory: it has the repository's folders and the files that pages show.
    folder: TempDir,
    /// The `PATH` of the shell.
    path: String,
}

impl Reader {
    fn new(pages: &[(String, String)]) -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["examples", "presets", "deploy"] {
            symlink(tools::root().join(name), folder.path().join(name)).unwrap();
        }
        for block in pages.iter().flat_map(|(_, text)| blocks::of(text)) {
            if let Some(name) = block.file() {
                fs::write(folder.path().join(name), block.lines.join("\n")).unwrap();
            }
        }
        let programs = folder.path().join("bin");
        fs::create_dir(&programs).unwrap();
        symlink(env!("CARGO_BIN_EXE_longboat"), programs.join("longboat")).unwrap();
        let tools = tools::root().join(".cache/bin");
        let system = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{}:{system}", programs.display(), tools.display());
        Self { folder, path }
    }

    /// Returns a shell command that runs `line` with standard error sent to standard output.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("exec 2>&1\nset -o pipefail\n{line}")]);
        command.current_dir(self.folder.path()).env("HOME", self.folder.path()).env("PATH", &self.path);
        // Always the simulator, whatever models this machine has.
        command.env("LONGBOAT_ENGINE", "sim").env_remove("RUST_LOG").env_remove("LONGBOAT_LOG");
        command
    }
}

/// Returns the series of model servers and pickers that the metrics page lacks or gives another type.
fn untold_metrics(world: &LocalCluster) -> Vec<String> {
    let page = fs::read_to_string(tools::root().join("docs/reference/metrics.md")).unwrap();
    let mut told: BTreeMap<&str, &str> = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let kind =
            line.split('|').map(str::trim).find(|cell| ["counter", "gauge", "histogram"].contains(cell));
        told.extend(
            line.split('`').skip(1).step_by(2).filter(|_| kind.is_some()).map(|name| (name, kind.unwrap())),
        );
    }
    let mut wrong = Vec::new();
    let pods = world.object(&["pods"]);
    let address = |is_it: &dyn Fn(&str) -> bool| {
        let pods = pods["items"].as_array().unwrap();
        let pod = pods.iter().find(|pod| is_it(pod["metadata"]["name"].as_str().unwrap())).unwrap();
        pod["status"]["podIP"].as_str().unwrap().to_owned()
    };
    let is_picker = |name: &str| name.starts_with("qwen-kserve-router-scheduler-");
    let picker = address(&is_picker);
    let server = address(&|name| name.starts_with("qwen-kserve-") && !is_picker(name));
    for (address, port) in [(server, 8000), (picker, 9090)] {
        let metrics =
            program::run(Command::new("curl").args(["-s", &format!("http://{address}:{port}/metrics")])).ok();
        let families = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let families: Vec<_> = families.collect();
        assert!(families.len() > 10, "port {port}: {metrics}");
        for (name, kind) in families {
            let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
            if told.get(name.as_str()) != Some(&kind) {
                wrong.push(format!("docs/reference/metrics.md does not have `{name}`, a {kind}"));
            }
        }
    }
    wrong
}

#[test]
fn output_is_compared_line_by_line_and_dots_stand_for_anything() {
    let output = "NAME   READY\nqwen   True   5s\n";
    assert_eq!(said(output, "NAME READY"), Some("qwen   True   5s\n"));
    assert_eq!(said(output, "qwen True …"), Some(""));
    assert_eq!(said(output, "qwen False …"), None);
    assert_eq!(said(output, "…"), Some(output));
    let rest = said(output, "qwen…").unwrap();
    assert_eq!(said(rest, "NAME…"), None, "lines come in their order");
}

#[test]
fn a_block_is_commands_with_their_output() {
    let text = "Text.\n\n```console\n$ one \\\n    two\nsaid\n$ three\n```\n```console not-run: a reason\n$ four\n```\n\
                ```yaml file=a.yaml\nkind: X\n```\n";
    let blocks = blocks::of(text);
    let steps = blocks[0].steps();
    assert_eq!(steps[0].command, "one \\\n    two");
    assert_eq!(steps[0].output, ["said"]);
    assert_eq!(steps[1].command, "three");
    assert_eq!((blocks[1].why_not(), blocks[1].is_runnable()), (Some("a reason"), false));
    assert_eq!(blocks[2].file(), Some("a.yaml"));
    assert!(Path::new(blocks[2].file().unwrap()).is_relative());
}
