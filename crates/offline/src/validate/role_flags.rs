//! Findings about the flags of our own programs in planned pods: what each would say when it starts, and pickers that wait for the
//! pool of nobody.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec};
use longboat_epp::host::{self, PickerSpec};
use longboat_key::{Key, Name, Namespace};
use longboat_manifest::Document;

use super::advice;
use crate::{
    finding::{Advice, Finding, ObjectName, Severity},
    pods::{base, containers_of, templates, words},
    scene::{PlannedService, Scene},
};

/// One of our programs in pods.
struct Role {
    /// The name of its executable.
    program: &'static str,
    name: &'static str,
    /// Returns why it does not start with these arguments and variables.
    refusal: fn(&[String], &[&str]) -> Option<String>,
}

static ROLES: [Role; 2] = [
    Role { program: "epp", name: "picker", refusal: |arguments, _| longboat_epp::refusal(arguments) },
    Role { program: "pd-sidecar", name: "sidecar", refusal: longboat_sidecar::refusal },
];

/// Returns why pickers and sidecars of a planned service do not start or are never ready, each at the argument in its layer.
pub(super) fn findings(
    scene: &Scene,
    document: &Document,
    service: &LLMInferenceService,
    planned: &PlannedService,
) -> Vec<Finding> {
    let Some(effective) = &planned.effective else { return Vec::new() };
    let images = &planned.snapshot.platform.images;
    let is_ours =
        |container: &&Container| container.image.as_ref().is_some_and(|image| images.are_ours(image));
    let mut all: Vec<Advice> = Vec::new();
    let pods = || templates(&planned.plan.children).filter_map(|template| template.spec.as_ref());
    let containers = pods().flat_map(|pod| pod.init_containers.iter().flatten().chain(&pod.containers));
    for container in containers.filter(is_ours) {
        // Groups of pods have the same containers several times.
        let found = refused(container, &effective.spec).filter(|found| !all.contains(found));
        all.extend(found);
    }
    let namespace = Namespace::of(&service.metadata);
    all.extend(pods().find_map(|pod| unknown_pool(scene, planned, &effective.spec, namespace, pod)));
    let name = ObjectName::of(document, namespace);
    advice::located(scene, document, &name, effective, all)
}

/// Returns why the program of a container refuses its arguments.
fn refused(container: &Container, spec: &LLMInferenceServiceSpec) -> Option<Advice> {
    let mut words = words(container);
    let program = base(words.next()?);
    let role = ROLES.iter().find(|role| role.program == program)?;
    let words: Vec<String> = words.map(str::to_owned).collect();
    // The values of variables are known on the node only.
    if words.iter().any(|word| word.contains("$(")) {
        return None;
    }
    let variables: Vec<&str> =
        container.env.iter().flatten().map(|variable| variable.name.as_str()).collect();
    let message = (role.refusal)(&words, &variables)?;
    // The shortest beginning that is refused for the same reason ends with the culprit.
    let end =
        (0..words.len()).find(|end| (role.refusal)(&words[..*end], &variables).as_ref() == Some(&message));
    // A flag that is missing makes only the whole wrong.
    let culprit = words[..end.unwrap_or(words.len())].last();
    let place = culprit.and_then(|word| argument(spec, &container.name, word));
    Some(Advice {
        path: place.unwrap_or_else(|| "spec".to_owned()),
        severity: Severity::Error,
        reason: "ArgumentRefused",
        message: format!(
            "the {} in container {} will not start: {}",
            role.name,
            container.name,
            one_line(&message)
        ),
        hint: None,
    })
}

/// Warns about a picker of a pool that is neither the one of the service nor in the manifests.
fn unknown_pool(
    scene: &Scene,
    planned: &PlannedService,
    spec: &LLMInferenceServiceSpec,
    namespace: Namespace<&str>,
    pod: &PodSpec,
) -> Option<Advice> {
    let named = PickerSpec::of_template(namespace, pod)?.pool;
    // A service with a pool of its writer has no pool and no picker of ours.
    let own = Name::of(&planned.plan.children.inference_pools.first()?.metadata);
    let given = scene.snapshot().inference_pools.get(namespace, named.name.as_deref());
    let is_known = named == Key::new(namespace, own) || given.is_some();
    let main = pod.containers.iter().find(|container| host::is_picker(container)).filter(|_| !is_known)?;
    let is_culprit = |word: &&str| word.rsplit('=').next() == Some(&*named.name);
    let path = words(main).filter(is_culprit).find_map(|word| argument(spec, &main.name, word));
    Some(Advice::warning(
        path.unwrap_or_else(|| "spec".to_owned()),
        "PickerPool",
        format!(
            "makes the picker wait for the InferencePool {}, and the pool of this service is {own}: if there is no such pool, the \
             picker is never ready",
            named.name
        ),
        format!("write `--pool-name={own}`"),
    ))
}

/// Returns the path of an argument in the composed service. The last element of a list that has it is meant, first in `args`.
fn argument(spec: &LLMInferenceServiceSpec, container: &str, word: &str) -> Option<String> {
    let picker = spec.scheduler().and_then(|scheduler| scheduler.template.as_deref());
    let picker = picker.map(|pod| ("spec.router.scheduler.template", pod));
    let all = spec.server_pods().chain(picker).flat_map(|(path, pod)| containers_of(path, pod));
    all.filter(|(_, one)| one.name == container).find_map(|(path, one)| {
        let fields = [("args", &one.args), ("command", &one.command)];
        fields.into_iter().find_map(|(field, words)| {
            let at = words.as_ref()?.iter().rposition(|found| found == word)?;
            Some(format!("{path}.{field}[{at}]"))
        })
    })
}

/// Returns what a message of the command line says, without the usage.
fn one_line(message: &str) -> String {
    let lines = message.lines().map(str::trim);
    let sentences = lines
        .filter(|line| !line.is_empty())
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let all: Vec<&str> = sentences.map(|line| line.trim_start_matches("error: ")).collect();
    all.join("; ").replace("; tip: ", "; ")
}
