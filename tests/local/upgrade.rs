//! `longboat upgrade --plan` in a world with the presets of an older build.

use std::process::Command;

use serde_json::{Value, json};

use crate::{
    local_cluster::{LocalCluster, example},
    program::{Ended, run},
    tools,
    wait::until,
};

const IMAGE: &str = "/spec/template/spec/containers/0/image";

fn plan(world: &LocalCluster, arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longboat"));
    run(command.args(["upgrade", "--plan"]).args(arguments).env("KUBECONFIG", &world.kubeconfig))
}

fn planned(world: &LocalCluster) -> Value {
    serde_json::from_str(&plan(world, &["-o", "json"]).stdout).unwrap()
}

#[test]
fn an_older_preset_is_found_and_what_it_rolls_and_a_pin_keeps_the_service() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::start(&[example().to_str().unwrap()]);

    // With the presets of this build, nothing would change.
    let same = plan(&world, &[]);
    assert_eq!(same.status.code(), Some(0), "{same:#?}");
    assert_eq!(same.stdout, "0 of 1 service would change, pods of 0 would roll\n");

    // The service runs the image of an older preset.
    let old = "ghcr.io/llm-d/llm-d-cuda:v0.0.1";
    let new = world.object(&["deployment", "qwen-kserve"]).pointer(IMAGE).cloned().unwrap();
    let patch =
        json!([{"op": "replace", "path": "/spec/template/containers/0/image", "value": old}]).to_string();
    world.ask(&[
        "patch",
        "-n",
        "kserve",
        "llminferenceserviceconfig",
        "kserve-config-llm-template",
        "--type",
        "json",
        "-p",
        &patch,
    ]);
    until("the old image runs", || {
        world.object(&["deployment", "qwen-kserve"]).pointer(IMAGE) == Some(&json!(old))
    });
    let found = planned(&world);
    let service = &found["services"][0];
    assert_eq!((&found["unchanged"], &service["service"]), (&json!(0), &json!("default/qwen")), "{found:#}");
    let field = "spec.template.containers[name=main].image";
    let change = json!({
        "path": field, "before": old, "after": new,
        "setBy": {"kind": "preset", "config": "kserve/kserve-config-llm-template"},
    });
    assert_eq!(service["effective"], json!([change]), "{found:#}");
    let because = json!({"path": "spec.template.spec.containers[name=main].image", "from": [field]});
    assert_eq!(
        service["rolls"],
        json!([{"object": "Deployment/qwen-kserve", "because": [because]}]),
        "{found:#}"
    );
    assert_eq!(service["pins"], json!([{"path": field, "value": old}]), "{found:#}");
    let text = plan(&world, &[]);
    assert_eq!(text.status.code(), Some(1), "{text:#?}");

    // With the image pinned in the service, as the plan advises, the upgrade changes nothing.
    let pin = json!({"spec": {"template": {"containers": [{"name": "main", "image": old}]}}}).to_string();
    world.ask(&["patch", "llmisvc", "qwen", "--type", "merge", "-p", &pin]);
    until("nothing would change", || planned(&world)["unchanged"] == 1);
}

#[test]
fn an_upgrade_without_a_plan_is_refused() {
    let ended = run(Command::new(env!("CARGO_BIN_EXE_longboat")).arg("upgrade"));
    assert_eq!(ended.status.code(), Some(2), "{ended:#?}");
    assert!(ended.stderr.contains("--plan"), "{ended:#?}");
}
