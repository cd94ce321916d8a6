//! References to children by names that they do not have, because the names of services with long names are hashed.

use longboat_api::{child_name, names::suffix, v1alpha2::LLMInferenceService};
use longboat_compose::{Effective, Origin};
use longboat_key::{Name, Namespace};
use longboat_plan::Snapshot;
use serde_json::Value;

use crate::finding::Advice;

/// The suffixes of children to which users refer.
const REFERABLE: [&str; 6] = [
    suffix::WORKLOAD_SERVICE,
    suffix::INFERENCE_POOL,
    suffix::EPP_SERVICE,
    suffix::TOKENIZER,
    suffix::CERTIFICATES,
    suffix::EPP_SERVICE_ACCOUNT,
];

/// A child's name as it would be without hashing, and its real name.
struct HashedName {
    written: String,
    real: String,
    suffix: &'static str,
}

/// Finds names of children that only a service with a shorter name would have.
pub(super) fn check(
    snapshot: &Snapshot,
    service: &LLMInferenceService,
    effective: &Effective,
) -> Vec<Advice> {
    let (namespace, name) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
    let exists = |written: &str| {
        snapshot.services.get(namespace, Name(written)).is_some()
            || snapshot.inference_pools.get(namespace, Name(written)).is_some()
    };
    let hashed: Vec<HashedName> = REFERABLE
        .into_iter()
        .map(|suffix| HashedName {
            written: format!("{name}{suffix}"),
            real: child_name(&name, suffix),
            suffix,
        })
        .filter(|child| child.written != child.real && !exists(&child.written))
        .collect();
    // Only long names are hashed, and computing provenance is expensive.
    if hashed.is_empty() {
        return Vec::new();
    }
    let mut all = Vec::new();
    for (path, leaf) in effective.provenance().iter() {
        let Value::String(text) = &leaf.value else { continue };
        for HashedName { written, real, suffix } in
            hashed.iter().filter(|child| mentions(text, &child.written))
        {
            let expression = format!("{{{{ ChildName .ObjectMeta.Name `{suffix}` }}}}");
            let hint = match leaf.origin {
                Origin::Config(_) | Origin::Runtime(_) => format!("write `{expression}`"),
                Origin::Service | Origin::Derived => format!(
                    "write `{real}`, or move the field to an LLMInferenceServiceConfig in spec.baseRefs and write \
                     `{expression}` there"
                ),
            };
            all.push(Advice::warning(
                format!("spec.{path}"),
                "HashedName",
                format!(
                    "names {written}, which will not exist: names have at most 63 characters, so the controller shortens \
                     this one to {real}"
                ),
                hint,
            ));
        }
    }
    all
}

/// Whether a text contains a name as a whole, and not as a part of a longer name.
fn mentions(text: &str, name: &str) -> bool {
    let continues = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(continues) && !text[at + name.len()..].starts_with(continues))
}

#[cfg(test)]
mod tests {
    use longboat_manifest::parse;

    use crate::{
        Settings,
        advice::tests::{finding_lines, findings, noted, service},
        render,
        scene::Scene,
    };

    const LONG: &str = "a-rather-long-name-for-an-inference-service-of-team-blue";

    const ROUTE: &str = "  model: {uri: 'hf://a/b', name: q}
  router:
    route:
      http:
        spec:
          parentRefs: [{name: edge, namespace: edge}]
          rules:
          - backendRefs:
            - {group: '', kind: Service, name: NAME-kserve-workload-svc, port: 8000}
";

    #[test]
    fn a_route_to_the_unshortened_name_of_a_child_is_warned_about_with_the_real_name() {
        let text = service(LONG, &ROUTE.replace("NAME", LONG));
        let scene = Scene::new(&parse("f.yaml", &text).unwrap(), &Settings::default()).unwrap();
        let children = render::children(&scene, &scene.subjects[0].service).unwrap().objects;
        let real = children.iter().find(|child| child.value["kind"] == "Service").unwrap();
        let real = real.value["metadata"]["name"].as_str().unwrap();
        let expected = format!(
            "names {LONG}-kserve-workload-svc, which will not exist: names have at most 63 characters, so the controller \
         shortens this one to {real}"
        );
        let hint = format!(
            "write `{real}`, or move the field to an LLMInferenceServiceConfig in spec.baseRefs and write `{{{{ ChildName \
         .ObjectMeta.Name `-kserve-workload-svc` }}}}` there"
        );
        let path = "spec.router.route.http.spec.rules[0].backendRefs[0].name";
        assert_eq!(finding_lines(&text), [format!("13:42 warning {path}: {expected} ({hint})")]);
        assert_eq!(noted(&text, "HashedName"), [format!("HashedName: {path} {expected}; {hint}")]);
        // Short names are not hashed.
        assert_eq!(finding_lines(&service("short", &ROUTE.replace("NAME", "short"))), Vec::<String>::new());
    }

    #[test]
    fn names_inside_arguments_and_in_templates_of_configs_are_found_too() {
        let args = format!(
            "  model: {{uri: 'hf://a/b'}}\n  baseRefs: [{{name: base}}]\n  template:\n    containers:\n    - name: main\n      args: ['--otlp-traces-endpoint=http://{LONG}-epp-service.default:80', '--chat-template={LONG}-epp-service-2']\n"
        );
        let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: base}\nspec:\n  template:\n    containers:\n    - name: main\n      env:\n      - {name: POOL, value: '{{ .ObjectMeta.Name }}-inference-pool'}\n";
        let found = findings(&(service(LONG, &args) + config));
        let places: Vec<_> = found
            .iter()
            .map(|finding| (finding.line.unwrap(), finding.path.as_str(), finding.reason.as_str()))
            .collect();
        assert_eq!(
            places,
            [
                (10, "spec.template.containers[0].args[0]", "HashedName"),
                (20, "spec.template.containers[0].env[0].value", "HashedName")
            ]
        );
        let hint = found[1].hint.as_deref();
        assert_eq!(hint, Some("write `{{ ChildName .ObjectMeta.Name `-inference-pool` }}`"));
        let proper = config.replace(
            "'{{ .ObjectMeta.Name }}-inference-pool'",
            "'{{ ChildName .ObjectMeta.Name `-inference-pool` }}'",
        );
        assert_eq!(findings(&(service(LONG, &args) + &proper)).len(), 1);
    }
}
