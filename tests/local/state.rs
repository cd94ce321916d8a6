//! `up --state DIR`.

use tempfile::TempDir;

use crate::{
    http,
    local_cluster::{LocalCluster, example, up_to_its_end},
    tools,
};

#[test]
fn objects_outlive_up_and_a_second_one_is_kept_out() {
    if tools::kubectl().is_none() {
        return;
    }
    let state = TempDir::new().unwrap();
    // Scripts of pods contain the path, and they are not quoted.
    let folder = state.path().join("two words").to_str().unwrap().to_owned();
    let example = example();
    let world = LocalCluster::start(&["--state", &folder, example.to_str().unwrap()]);
    let uid = world.ask(&["get", "llmisvc", "qwen", "-o", "jsonpath={.metadata.uid}"]);
    world.ask(&["create", "configmap", "kept", "--from-literal=a=b"]);
    let copy = state.path().join("kubeconfig");
    std::fs::copy(&world.kubeconfig, &copy).unwrap();

    let second = up_to_its_end(&["--port", "0", "--state", &folder]);
    assert_eq!(second.status.code(), Some(1), "{second:#?}");
    assert!(second.stderr.contains("is in use by another `longboat up`"), "{second:#?}");
    assert!(second.stderr.contains("--state"), "says what to do: {second:#?}");
    let colon = format!("{}/a:b", state.path().display());
    for (folder, part) in [
        ("/proc/none", "a folder in which you may write: `--state` names it, or TMPDIR"),
        (&colon, "/a:b`: expected a path without line breaks, and without a colon"),
    ] {
        let refused = up_to_its_end(&["--port", "0", "--state", folder]);
        assert!(!refused.status.success() && refused.stderr.contains(part), "{folder}: {refused:#?}");
    }

    crate::processes::signal("TERM", world.running.pid());
    let LocalCluster { running, .. } = world;
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.stderr.contains(&format!("--state '{folder}'")), "{ended:#?}");

    let mut again = LocalCluster::start(&["--state", &folder, example.to_str().unwrap()]);
    // The address, the certificate authority and the token are those of the first run.
    again.kubeconfig = copy;
    assert_eq!(again.ask(&["get", "llmisvc", "qwen", "-o", "jsonpath={.metadata.uid}"]), uid);
    assert_eq!(again.ask(&["get", "configmap", "kept", "-o", "jsonpath={.data.a}"]), "b");
    assert_eq!(http::get(&format!("{}/v1/models", again.url)).status, 200);
}

#[test]
fn others_of_this_machine_can_look_into_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let state = TempDir::new().unwrap();
    let folder = state.path().join("open");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let example = example();
    let world = LocalCluster::start(&["--state", folder.to_str().unwrap(), example.to_str().unwrap()]);
    let mut open = Vec::new();
    look(&folder, &mut open);
    assert!(open.is_empty(), "{open:#?}");
    drop(world);
}

/// Collects folders, and files in pods' volumes, that other users may access.
fn look(path: &std::path::Path, open: &mut Vec<String>) {
    use std::os::unix::fs::PermissionsExt;
    let Ok(metadata) = path.symlink_metadata() else { return };
    let mode = metadata.permissions().mode() & 0o777;
    let is_volume = path.to_string_lossy().contains("/volumes/");
    if mode & 0o077 != 0 && (metadata.is_dir() || (metadata.is_file() && is_volume)) {
        open.push(format!("{} {mode:o}", path.display()));
    }
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            look(&entry.path(), open);
        }
    }
}
