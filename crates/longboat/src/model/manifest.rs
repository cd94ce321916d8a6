//! The LLMInferenceService that serves a model.

use std::fmt::Write as _;

use longboat_api::{names::STORAGE_INITIALIZER, uri::Uri};
use serde_json::json;

use super::ModelReference;

// === impl ModelReference ===

impl ModelReference {
    /// Returns the manifest of a service with this model, in the form in which people write manifests.
    pub(crate) fn manifest(&self) -> String {
        let quoted = |text: &str| json!(text).to_string();
        // On a cluster, the image of the preset computes on a GPU. `up` takes any request for devices.
        let mut text = format!(
            "apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata:
  name: {}
spec:
  model:
    uri: {}
    name: {}
  replicas: 1
  template:
    containers:
      - name: main
        resources:
          limits:
            nvidia.com/gpu: \"1\"
",
            name_in_yaml(&self.service),
            quoted(&Uri::text_of(&self.address)),
            quoted(&self.name)
        );
        let mut variables = self.patterns.variables().peekable();
        if variables.peek().is_some() {
            let _ = write!(
                text,
                "    initContainers:
      - name: {STORAGE_INITIALIZER}
        env:
"
            );
            for (name, pattern) in variables {
                let _ = writeln!(text, "          - name: {name}\n            value: {}", quoted(pattern));
            }
        }
        // A picker chooses among replicas, so one replica starts faster without.
        text += "  router:\n    gateway: {}\n    route: {}\n";
        text
    }
}

/// Words that are booleans or null in YAML 1.1 or 1.2.
const NOT_TEXT: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];

/// Returns the name of a service, in quotes if YAML would take it for something else. It begins with a letter.
fn name_in_yaml(name: &str) -> String {
    if NOT_TEXT.contains(&name) { json!(name).to_string() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use longboat_api::uri::Uri;
    use longboat_manifest::ParseOutput;
    use longboat_offline::{Settings, validate::validate};

    use crate::model::ModelReference;

    #[test]
    fn the_manifest_of_each_form_of_a_model_is_valid() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a \"b\": 100%?#c.gguf");
        std::fs::write(&file, "").unwrap();
        let boolean = folder.path().join("on");
        std::fs::create_dir(&boolean).unwrap();
        for (text, patterns) in [
            ("smollm2-135m", None),
            ("qwen3-0.6b", None),
            ("hf://o/m:main", Some("*-Q4_K_M.gguf")),
            (file.to_str().unwrap(), None),
            (boolean.to_str().unwrap(), None),
        ] {
            let model = ModelReference::parse(text, patterns).unwrap();
            let documents = longboat_manifest::parse("run", &model.manifest()).unwrap();
            let uri = Uri::parse(documents[0].text("/spec/model/uri")).unwrap();
            assert_eq!(uri.address(), model.address);
            assert_eq!(documents[0].text("/spec/model/name"), model.name);
            let report = validate(ParseOutput { documents, ..ParseOutput::default() }, &Settings::default());
            assert!(report.is_clean() && report.findings.is_empty(), "{text}: {:?}", report.findings);
        }
    }
}
