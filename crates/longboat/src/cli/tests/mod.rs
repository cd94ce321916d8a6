mod printed;

use std::path::PathBuf;

use super::*;

#[test]
fn a_program_of_the_image_is_helped_with_under_its_name() {
    for (arguments, usage) in [
        (&["/app/epp", "--help"][..], "Usage: epp [OPTIONS]\n"),
        (&["/manager", "--nonsense"], "Usage: manager [OPTIONS]\n"),
        (&["longboat", "epp", "--help"], "Usage: longboat epp [OPTIONS]\n"),
        (
            &["/storage-initializer/scripts/initializer-entrypoint", "--help"],
            "Usage: initializer-entrypoint [SOURCE] [DEST]...",
        ),
    ] {
        let said = parse(arguments.iter().map(Into::into).collect()).unwrap_err().render().to_string();
        assert!(said.contains(usage), "{said}");
    }
}

#[test]
fn a_role_in_a_pod_reads_its_flags_as_the_whole_definition_does() {
    for line in [
        "longboat gateway --gateway-namespace ns --gateway-name=g --picking gateway --drain-timeout 1m",
        "longboat epp --pool-name p --pool-namespace ns --grpc-port 1 --config-text x",
        "longboat shared-picker",
        "longboat sidecar --port 1",
        "longboat sidecar --no-such-flag",
        "longboat epp --help",
        "longboat gateway --version",
    ] {
        let arguments: Vec<OsString> = line.split(' ').map(Into::into).collect();
        let whole = command(ProgramName::Longboat).try_get_matches_from(&arguments);
        let whole = whole.ok().map(|matches| Cli::from_arg_matches(&matches).unwrap().command);
        assert_eq!(format!("{:?}", role_in_pod(&arguments)), format!("{whole:?}"), "{line}");
    }
}

#[test]
fn the_definition_is_consistent() {
    command(ProgramName::Longboat).debug_assert();
    command(ProgramName::Plugin).debug_assert();
}

#[test]
fn a_plugin_is_helped_with_under_its_name_and_about_what_people_do() {
    let help = |arguments: &[&str]| {
        parse(arguments.iter().map(Into::into).collect()).unwrap_err().render().to_string()
    };
    let plugin = help(&["/bin/kubectl-longboat", "--help"]);
    assert!(plugin.starts_with("KServe's LLMInferenceService stack"), "{plugin}");
    assert!(plugin.contains("Usage: kubectl longboat <COMMAND>"), "{plugin}");
    assert!(plugin.contains("render") && !plugin.contains("Role"), "{plugin}");
    let verb = help(&["kubectl-longboat", "render", "--help"]);
    assert!(verb.contains("Usage: kubectl longboat render [OPTIONS]"), "{verb}");
    let mistake = help(&["kubectl-longboat", "diff"]);
    assert!(mistake.contains("Usage: kubectl longboat diff <MANIFEST>..."), "{mistake}");
    // The roles work all the same, although they are hidden.
    assert!(matches!(parse(["kubectl-longboat", "sim", "m"].map(Into::into).to_vec()), Ok(Command::Sim(_))));
    assert!(help(&["longboat", "--help"]).contains("Roles (programs of a cluster)"));
    assert!(
        help(&["kubectl-longboat", "help", "render"]).contains("Usage: kubectl longboat render [OPTIONS]")
    );
}

#[test]
fn manifests_are_named_with_and_without_the_flag() {
    let Ok(Command::Validate(args)) =
        parse(["longboat", "validate", "a", "-f", "b", "c"].map(Into::into).to_vec())
    else {
        panic!("it was not understood")
    };
    assert_eq!(args.manifests.files(), ["a", "c", "b"].map(PathBuf::from));
    for verb in ["validate", "render", "diff"] {
        assert!(parse(["longboat", verb].map(Into::into).to_vec()).is_err(), "{verb}");
        assert!(parse(["longboat", verb, "-f", "x"].map(Into::into).to_vec()).is_ok(), "{verb}");
    }
    assert!(parse(["longboat", "up"].map(Into::into).to_vec()).is_ok());
}

#[test]
fn a_program_name_chooses_its_role() {
    let parsed =
        parse(["/x/bin/vllm", "serve", "/mnt/models", "--port", "8000"].map(Into::into).to_vec()).unwrap();
    assert!(
        matches!(parsed, Command::Vllm(args) if args.arguments == ["serve", "/mnt/models", "--port", "8000"])
    );
    let parsed = parse(["/x/bin/storage-initializer", "hf://a/b", "/mnt"].map(Into::into).to_vec()).unwrap();
    assert!(matches!(parsed, Command::Fetch(args) if args.downloads.pairs == ["hf://a/b", "/mnt"]));
    let parsed =
        parse(["/app/pd-sidecar", "--port=1", "", "--vllm-port=2", "extra"].map(Into::into).to_vec());
    assert!(matches!(parsed.unwrap(), Command::Sidecar(args) if (args.port, args.vllm_port) == (1, Some(2))));
}
