//! `kubectl kustomize` prints the same objects that `longboat install` writes.

use std::process::Command;

use longboat_install::{Installation, Values, files::OVERLAYS};

use crate::{Objects, assert_same, objects, printed, tools};

fn built(folder: &str) -> Option<Objects> {
    let kubectl = tools::kubectl()?;
    Some(printed(Command::new(kubectl).arg("kustomize").arg(tools::root().join("deploy").join(folder))))
}

#[test]
fn the_base_is_the_installation_with_the_default_values() {
    let Some(base) = built("kustomize/base") else { return };
    let wanted = Installation::new("kserve", &Values::default()).unwrap();
    assert_same("base", &base, &objects(wanted.definitions.iter().chain(&wanted.controller)));
}

#[test]
fn an_overlay_is_the_installation_with_its_values() {
    for (name, text) in OVERLAYS {
        let Some(overlay) = built(&format!("kustomize/overlays/{name}")) else { return };
        let values = Values::read(&[(name.to_owned(), text.to_owned())], &[]).unwrap();
        assert_ne!(values, Values::default());
        let wanted = Installation::new("kserve", &values).unwrap();
        assert_same(name, &overlay, &objects(wanted.definitions.iter().chain(&wanted.controller)));
    }
}

#[test]
fn a_component_adds_what_its_value_adds() {
    for (component, value) in
        [("monitoring", "monitoring"), ("gateway", "gateway"), ("shared-picker", "sharedPicker")]
    {
        check_component(component, value);
    }
}

fn check_component(component: &str, value: &str) {
    let Some(kubectl) = tools::kubectl() else { return };
    // Kustomize takes only relative paths.
    let folder = tempfile::tempdir_in(tools::root().join("target")).unwrap();
    std::fs::write(
        folder.path().join("kustomization.yaml"),
        format!(
            "resources: [../../deploy/kustomize/base]\ncomponents: [../../deploy/kustomize/components/{component}]\n"
        ),
    )
    .unwrap();
    let built = printed(Command::new(kubectl).arg("kustomize").arg(folder.path()));
    let values = Values::read(&[], &[format!("{value}.enabled=true")]).unwrap();
    let expected = Installation::new("kserve", &values).unwrap();
    assert_same(component, &built, &objects(expected.definitions.iter().chain(&expected.controller)));
}

#[test]
fn the_presets_are_those_of_the_installation() {
    let Some(presets) = built("presets") else { return };
    let wanted = Installation::new("kserve", &Values::default()).unwrap();
    assert_same("presets", &presets, &objects(&wanted.presets));
}
