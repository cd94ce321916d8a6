//! The addresses and model names by which clients reach services.

use serde_json::Value;
use tempfile::TempDir;

use crate::{http, local_cluster::LocalCluster};

/// Two services: the base config of the first names its model, and the second has no router and causes an admission warning.
const SERVICES: &str = "
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceServiceConfig
metadata: {name: named}
spec:
  model: {uri: \"hf://org/base\", name: org/base}
---
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: layered}
spec:
  baseRefs: [{name: named}]
  model: {uri: \"hf://org/base\"}
  router: {route: {}, gateway: {}, scheduler: {}}
---
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: bare}
spec:
  model: {uri: \"hf://org/bare\", name: org/bare}
  parallelism: {pipeline: 2}
";

#[test]
fn each_service_is_asked_where_it_answers_and_for_the_model_that_it_has() {
    let folder = TempDir::new().unwrap();
    // The manifests are in a subfolder of the folder that `-R` names.
    let deep = folder.path().join("team/services");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("services.yaml"), SERVICES).unwrap();
    let world = LocalCluster::start(&["-R", folder.path().to_str().unwrap(), "--prompt", "Why?"]);
    let answers = world.running.stdout();
    assert_eq!(answers.trim().lines().count(), 2, "{answers}");

    let said = world.running.stderr();
    let url = |name: &str| {
        let found = said.lines().find_map(|line| line.split_once(&format!("{name} serves at ")));
        found.unwrap_or_else(|| panic!("no address of {name}: {said}")).1.trim().to_owned()
    };
    assert!(url("default/layered").ends_with("/default/layered"), "{said}");
    // The address is one of this machine, not a name that resolves only in a cluster.
    assert!(url("default/bare").starts_with("http://127."), "{said}");
    let models = http::get(&format!("{}/v1/models", url("default/bare"))).json();
    assert_eq!(models["data"][0]["id"], "org/bare");

    // The admission warning is printed once.
    let warnings =
        said.lines().filter(|line| line.contains("warning") && line.contains("spec.parallelism.pipeline"));
    assert_eq!(warnings.count(), 1, "{said}");

    // The printed curl command works unchanged.
    let (_, command) = said.split_once("  curl ").unwrap();
    let body = command.split('\'').nth(3).unwrap();
    let request: Value = serde_json::from_str(body).unwrap();
    assert_eq!(request["model"], "org/base");
    let address = command.split(' ').next().unwrap();
    assert_eq!(http::post(address, &request).status, 200, "{address} {body}");
    assert!(said.contains(r#"chat.completions.create(model="org/base""#), "{said}");
    assert!(said.contains("default/bare serves the model org/bare"), "{said}");
}
