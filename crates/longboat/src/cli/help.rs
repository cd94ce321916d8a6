//! The contents of `--help` besides flags: verbs and roles in groups, and examples.

use std::fmt::Write as _;

use clap::Command;

use crate::program_name::ProgramName;

/// The width of the list of verbs, in columns.
const WIDTH: usize = 92;
/// The columns before the description of a verb.
const INDENT: usize = 16;

/// The help page without a verb.
const PAGE: &str = "{about}\n\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}";

/// The start of the description of each role.
const ROLE: &str = "Role: ";

/// Verbs by their purpose. The remaining commands are roles.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Run and observe services", &["run", "up", "status", "dashboard", "why", "doctor"]),
    ("Check manifests before you apply them", &["validate", "render", "explain", "diff", "simulate"]),
    ("Set up a cluster", &["install", "upgrade", "uninstall", "crds"]),
    ("Manage models on this machine", &["models"]),
    ("Other commands", &["completion", "man", "help", "version"]),
];

/// Examples for the page without a verb, and for verbs.
const EXAMPLES: [(&str, &str); 14] = [
    (
        "",
        "\
longboat run smollm2-135m                                   chat with a small model on this machine
longboat up service.yaml --prompt \"Why is the sea salty?\"   run a service here, and send a prompt
longboat render service.yaml                                print the objects that a cluster would get
longboat doctor                                             find out why something does not work
longboat help up                                            list all flags of a command",
    ),
    (
        "up",
        "\
longboat up service.yaml                             run it until you press Ctrl-C
longboat up service.yaml --prompt \"Hello\" --once     send a prompt, print the answer, and exit
longboat up -R manifests/ --state ./state            all files below a folder; keep objects for the next run
kustomize build . | longboat up -                    manifests from another program
longboat up service.yaml --engine cpu                run the model on the CPU, or fail with the reason
longboat up service.yaml --watch                     apply the file again whenever it is edited
longboat up service.yaml --engine vllm               use this command as the engine",
    ),
    (
        "run",
        "\
longboat run smollm2-135m                            chat; Ctrl-C stops an answer, Ctrl-D ends
longboat run model.gguf 'Hello'                      answer once
longboat run hf://Qwen/Qwen3-0.6B-GGUF --serve       keep the API, as `longboat up` does
longboat run smollm2-135m --manifest                 print what `kubectl apply` takes",
    ),
    (
        "models",
        "\
longboat models show                                 the catalogue, with sizes and licences
longboat models pull smollm2-135m                    download a model, to use it later without a network
longboat models ls                                   what was downloaded",
    ),
    (
        "validate",
        "\
longboat validate service.yaml
longboat validate -R manifests/ -o json              all files below a folder, findings as JSON",
    ),
    (
        "render",
        "\
longboat render service.yaml                         the objects that the controller would create
longboat render --effective service.yaml             the spec after the merge of presets and baseRefs
longboat render --live service.yaml                  use the objects in the cluster of the kubeconfig",
    ),
    (
        "explain",
        "\
longboat explain service.yaml                        the layers of a service
longboat explain service.yaml spec.replicas          the layer that set a field, and the replaced value
longboat explain service.yaml 'deployment.spec.template.spec.containers[main].image'
longboat explain qwen -n team                        a service in the cluster",
    ),
    (
        "diff",
        "\
longboat diff service.yaml                           compare with the cluster of the kubeconfig
longboat diff new.yaml --from old.yaml               compare two manifests, without a cluster
longboat diff service.yaml --from-presets builtin --presets ./presets",
    ),
    (
        "simulate",
        "\
longboat simulate service.yaml --trace day.jsonl     the replicas and the picker of a service, with recorded traffic
longboat simulate --generate sessions --rate 20 --config a.yaml --config b.yaml --html report.html
longboat simulate service.yaml --generate agents --sweep replicas=2..16 --for 'ttft.p99<800ms'
longboat simulate calibrate http://127.0.0.1:8000 --model qwen",
    ),
    (
        "status",
        "\
longboat status                                      the services of the context's namespace
longboat status qwen -w                              watch one service
longboat status -A -o json                           JSON for scripts, with the field names of the API",
    ),
    (
        "dashboard",
        "\
longboat dashboard --open                            the cluster of the kubeconfig, in a browser
longboat dashboard -n team --port 8001               one namespace, on a fixed port",
    ),
    (
        "why",
        "\
curl -si … | grep -i x-request-id                    get the ID of a request
longboat why 0b8c…                                   explain why the picker chose its replica",
    ),
    (
        "doctor",
        "\
longboat doctor                                      the installation and all services
longboat doctor qwen -n team                         one service",
    ),
    (
        "install",
        "\
longboat install --set image=registry.example/longboat:v1
longboat install -f values.yaml --dry-run            print the objects, without reading a cluster",
    ),
];

/// Groups the verbs of the whole command line, and adds the examples.
pub(super) fn with_groups_and_examples(command: Command, called: ProgramName) -> Command {
    let name = called.typed();
    let mut list = String::new();
    for (heading, verbs) in GROUPS {
        group(&mut list, heading, verbs, &command);
    }
    if called == ProgramName::Longboat {
        let roles: Vec<&str> =
            command.get_subcommands().filter(|verb| is_role(verb)).map(Command::get_name).collect();
        group(&mut list, "Roles (programs of a cluster)", &roles, &command);
    }
    let examples = |page: &str| {
        let (_, text) = EXAMPLES.iter().find(|(of, _)| *of == page)?;
        Some(format!("Examples:\n{}", indented(&text.replace("longboat ", &format!("{name} ")))))
    };
    command
        .help_template(PAGE)
        .before_help(list.trim_end().to_owned())
        .after_help(examples("").unwrap_or_default())
        .mut_subcommands(|verb| match examples(verb.get_name()) {
            Some(text) => verb.after_help(text),
            None => verb,
        })
}

/// Whether a verb is a program that pods and nodes start. These are hidden from users of `kubectl longboat`.
pub(super) fn is_role(verb: &Command) -> bool {
    verb.get_about().is_some_and(|about| about.to_string().starts_with(ROLE))
}

/// Writes a heading, and a line for each verb.
fn group(list: &mut String, heading: &str, verbs: &[&str], command: &Command) {
    let _ = writeln!(list, "{heading}:");
    for name in verbs {
        let about = match (*name, command.find_subcommand(name)) {
            // clap generates this verb.
            ("help", _) => "Print the help of a command or role: `help up`".to_owned(),
            (_, Some(verb)) if !verb.is_hide_set() => {
                verb.get_about().map(ToString::to_string).unwrap_or_default()
            }
            _ => continue,
        };
        let about = about.trim_start_matches(ROLE);
        let mut column = INDENT;
        let _ = write!(list, "  {name:<width$}", width = INDENT - 2);
        for word in about.split(' ') {
            if column + word.len() > WIDTH {
                let _ = write!(list, "\n{:INDENT$}", "");
                column = INDENT;
            }
            let _ = write!(list, "{}{word}", if column > INDENT { " " } else { "" });
            column += word.len() + 1;
        }
        list.push('\n');
    }
    list.push('\n');
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use crate::{cli, program_name::ProgramName};

    #[test]
    fn every_verb_and_role_that_is_not_hidden_stands_in_one_group() {
        let command = cli::command(ProgramName::Longboat);
        let page = command.clone().render_help().to_string();
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let name = verb.get_name();
            let lines = page.lines().filter(|line| line.starts_with(&format!("  {name} ")));
            assert_eq!(lines.count(), 1, "{name}: {page}");
        }
        assert!(page.contains("\nExamples:\n  longboat run smollm2-135m "), "{page}");
        assert!(page.contains("\nRoles (programs of a cluster):\n  controller "), "{page}");
    }

    /// Parses each example up to the description that follows it, and up to its prompt.
    #[test]
    fn every_example_is_understood() {
        let command = cli::command(ProgramName::Longboat);
        let pages = std::iter::once(&command).chain(command.get_subcommands());
        let mut count = 0;
        for page in pages.filter(|page| page.get_name() != "sim") {
            let text = page.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in text.lines().filter_map(|line| line.trim().strip_prefix("longboat ")) {
                // The description of an example follows after several spaces.
                let words = line.split("   ").next().unwrap_or_default().replace('"', "");
                let mut arguments = vec!["longboat".to_owned()];
                arguments.extend(words.split_whitespace().map(|word| word.trim_matches('\'').to_owned()));
                if arguments.iter().any(|word| word == "--prompt") {
                    arguments
                        .truncate(arguments.iter().position(|word| word == "--prompt").unwrap_or_default());
                }
                if arguments[1] == "help" {
                    continue;
                }
                let parsed = cli::parse(arguments.iter().map(Into::into).collect());
                assert!(
                    parsed.is_ok(),
                    "{line}: {}",
                    parsed.err().map(|error| error.to_string()).unwrap_or_default()
                );
                count += 1;
            }
        }
        assert!(count > 15, "{count}");
    }
}
