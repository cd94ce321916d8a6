//! `helm template` prints the same objects that `longboat install` writes.

use std::{io::Write, process::Command};

use longboat_install::{Installation, Values, files::OVERLAYS};
use serde_json::Value;

use crate::{Objects, assert_same, objects, printed, tools};

/// Values for everything that users of a chart can choose.
const EVERYTHING: &str = "
image: registry.example/longboat:v9
imagePullPolicy: Always
imagePullSecrets: [one, two]
replicas: 3
resources: {limits: {cpu: 2, memory: null}}
nodeSelector: {disk: ssd}
tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]
extraArgs: [--workers=8]
logLevel: debug
metrics: {enabled: false}
monitoring: {enabled: true, labels: {release: prometheus}}
gateway: {enabled: true}
sharedPicker: {enabled: true, replicas: 3}
webhookUrl: https://192.0.2.1:9443
presetPrefix: v9-
platform:
  settings:
    ingress: {urlScheme: https, enableLLMInferenceServiceTLS: true}
    localModel: {enabled: true}
    longboat: {picker: shared, pickerClients: [gateways, edge]}
    storageInitializer: {enableOciModelSupport: true, ociModelMode: native}
";

/// Renders a chart, and removes what only Helm needs.
fn rendered(chart: &str, values: &str) -> Option<Objects> {
    let helm = tools::tool("bin/helm")?;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(values.as_bytes()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let put = Command::new(tools::root().join("scripts/charts.sh")).arg(folder.path()).output().unwrap();
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    let chart = folder.path().join(chart);
    let mut command = Command::new(helm);
    command.args(["template", "longboat", chart.to_str().unwrap(), "--namespace=kserve", "--values"]);
    let mut all = printed(command.arg(file.path()));
    for object in all.values_mut().filter(|object| object["kind"] == "CustomResourceDefinition") {
        let annotations = object["metadata"]["annotations"].as_object_mut().unwrap();
        assert_eq!(annotations.remove("helm.sh/resource-policy").unwrap(), "keep");
        if annotations.is_empty() {
            object["metadata"].as_object_mut().unwrap().remove("annotations");
        }
    }
    Some(all)
}

/// Returns the installation without the namespace, which Helm creates itself.
fn installation(values: &str) -> Installation {
    let mut values = Values::read(&[("values.yaml".to_owned(), values.to_owned())], &[]).unwrap();
    values.create_namespace = false;
    Installation::new("kserve", &values).unwrap()
}

#[test]
fn the_defaults_of_the_chart_are_those_of_the_command() {
    let path = tools::root().join("deploy/helm/longboat/values.yaml");
    let chart: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut ours = serde_json::to_value(Values::default()).unwrap();
    // Helm creates namespaces itself, and the presets are in another chart.
    ours.as_object_mut().unwrap().retain(|key, _| key != "createNamespace" && key != "createPresets");
    assert_eq!(chart, ours);
}

#[test]
fn the_chart_refuses_values_that_the_command_refuses() {
    let Some(helm) = tools::tool("bin/helm") else { return };
    let folder = tempfile::tempdir().unwrap();
    let put = Command::new(tools::root().join("scripts/charts.sh")).arg(folder.path()).output().unwrap();
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    let watched = r#"watchNamespaces=["a"]"#;
    for (values, place) in [
        (vec!["bogus=1"], "bogus"),
        (vec![r#"replicas="abc""#], "replicas"),
        (vec!["metrics.enable=true"], "enable"),
        (vec![watched], "metrics.secure"),
        (vec![watched, "metrics.secure=false", "gateway.enabled=true"], "gateway.enabled"),
        (vec![watched, "metrics.secure=false", "sharedPicker.enabled=true"], "sharedPicker.enabled"),
        (vec![watched, "metrics.secure=false", r#"secretNamespaces=["b"]"#], "secretNamespaces"),
        (vec![r#"platform.settings.longboat.picker="shared""#], "sharedPicker.enabled"),
    ] {
        let mut command = Command::new(&helm);
        command.args(["template", "longboat"]).arg(folder.path().join("longboat"));
        command.args(values.iter().map(|value| format!("--set-json={value}")));
        let ended = command.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && said.contains(place), "{values:?}: {said}");
        let assignments: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
        assert!(Values::read(&[], &assignments).is_err(), "{assignments:?}");
    }
}

#[test]
fn the_chart_is_the_installation_with_the_same_values() {
    let overlays = OVERLAYS.map(|(name, text)| (name, text.to_owned()));
    let others = [
        ("defaults", String::new()),
        ("everything", EVERYTHING.to_owned()),
        ("monitoring", "monitoring: {enabled: true}".to_owned()),
        (
            "monitoring of some namespaces",
            "{watchNamespaces: [one, two], certManager: true, metrics: {secure: false}, monitoring: {enabled: true}}".to_owned(),
        ),
    ];
    for (name, values) in others.into_iter().chain(overlays) {
        let Some(chart) = rendered("longboat", &values) else { return };
        let wanted = installation(&values);
        assert_same(name, &chart, &objects(wanted.definitions.iter().chain(&wanted.controller)));
    }
}

#[test]
fn the_chart_of_the_presets_is_those_of_the_installation() {
    for values in ["presetPrefix: kserve-", "presetPrefix: v9-"] {
        let Some(chart) = rendered("longboat-presets", values) else { return };
        assert_same(values, &chart, &objects(&installation(values).presets));
    }
}

#[test]
fn the_repository_holds_only_what_a_chart_adds() {
    let helm = tools::root().join("deploy/helm");
    let mut folders = vec![helm.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            assert!(!kind.is_symlink(), "{} is a link, about which Helm warns", path.display());
            if kind.is_dir() {
                folders.push(path);
                continue;
            }
            let within = path.strip_prefix(&helm).unwrap().to_str().unwrap();
            let own = ["/templates/", "/Chart.yaml", "/values.yaml", "/values.schema.json"];
            let is_own = own.iter().any(|part| within.contains(part));
            assert!(is_own, "{within} is a copy: `scripts/charts.sh` copies it when a chart is put together");
        }
    }
}

#[test]
fn a_chart_that_is_not_put_together_is_refused() {
    let Some(helm) = tools::tool("bin/helm") else { return };
    for name in ["longboat", "longboat-presets"] {
        let output = Command::new(&helm)
            .args(["template", name])
            .arg(tools::root().join("deploy/helm").join(name))
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains("run scripts/charts.sh"), "{name}: {stderr}");
    }
}
