//! What to do about a Secret or a ConfigMap that does not exist, or that lacks an entry: the command that creates it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, Pod};
use longboat_api::{shell, v1alpha2::LLMInferenceService};
use longboat_key::{Namespace, names::is_subdomain};
use longboat_plan::secret_command;

use crate::{facts::Facts, finding::Cause};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Secret,
    ConfigMap,
}

/// What a message says is missing. Its words come from others, so only what is a name counts, because it becomes part of a command.
#[derive(Debug, PartialEq, Eq)]
struct MissingObject<'a> {
    kind: Kind,
    name: &'a str,
    /// The entry that an existing object lacks.
    entry: Option<&'a str>,
}

/// Returns what to do if the service's credentials for its model do not exist.
pub(crate) fn storage_secret(facts: &Facts, service: &LLMInferenceService, message: &str) -> Option<Cause> {
    let MissingObject { kind: Kind::Secret, name, entry: None } = MissingObject::parse(message)? else {
        return None;
    };
    let platform = &facts.snapshot.platform;
    let (namespace, address) = (Namespace::of(&service.metadata), service.spec.model.uri.address());
    let annotation = &platform.credentials.storage_secret_name_annotation;
    let annotations = service.metadata.annotations.as_ref();
    let place = if annotations.and_then(|all| all.get(annotation)).is_some_and(|named| named == name) {
        format!("the annotation {annotation} of the service")
    } else {
        "`secrets` of the pods' ServiceAccount".to_owned()
    };
    let command = secret_command(platform, namespace, name, &address);
    let fix = match command {
        Some(command) => format!("run `{command}`, or remove the name from {place}"),
        // Such a model needs no credentials.
        None => format!("remove the name from {place}: a model at {}:// needs no Secret", address.scheme()),
    };
    Some(Cause::new(
        "SecretMissing",
        format!("there is no Secret {namespace}/{name} for the download of the model"),
        fix,
    ))
}

/// Returns what to do about an object that the environment or a volume of a pod names.
pub(crate) fn of_pod(pod: &Pod, message: &str) -> Option<String> {
    let absent = MissingObject::parse(message)?;
    let (namespace, name) = (Namespace::of(&pod.metadata), absent.name);
    let kind = absent.kind.word();
    let command = if let Some(entry) = absent.entry {
        let field = if absent.kind == Kind::Secret { "stringData" } else { "data" };
        format!(r#"kubectl patch {kind} -n {namespace} {name} -p '{{"{field}": {{"{entry}": "VALUE"}}}}'"#)
    } else {
        let entries = absent.entries(pod);
        let entries: Vec<_> = entries.iter().map(|entry| format!("--from-literal={entry}=VALUE")).collect();
        let entries = if entries.is_empty() { "--from-file=FILE".to_owned() } else { entries.join(" ") };
        let generic = if absent.kind == Kind::Secret { " generic" } else { "" };
        format!("kubectl create {kind}{generic} -n {namespace} {name} {entries}")
    };
    Some(format!("run `{command}`, or correct the name in the pod template"))
}

// === impl Kind ===

impl Kind {
    fn of(word: &str) -> Option<Self> {
        match word.trim_end_matches('s').to_ascii_lowercase().as_str() {
            "secret" => Some(Self::Secret),
            "configmap" => Some(Self::ConfigMap),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::ConfigMap => "configmap",
        }
    }
}

// === impl MissingObject ===

impl<'a> MissingObject<'a> {
    /// Reads `secret "NAME" not found`, or `couldn't find key ENTRY in Secret NAMESPACE/NAME`.
    fn parse(message: &'a str) -> Option<Self> {
        // The API server writes the plural, `secrets "a" not found`; the kubelet writes the singular.
        let last_word = |text: &'a str| text.rsplit(|c: char| !c.is_ascii_alphabetic()).next();
        let found = if let Some((before, _)) = message.split_once("\" not found") {
            let (before, name) = before.rsplit_once('"')?;
            Self { kind: Kind::of(last_word(before.trim_end())?)?, name, entry: None }
        } else {
            let (entry, rest) = message.split_once("couldn't find key ")?.1.split_once(" in ")?;
            let (kind, object) = rest.split_once(' ')?;
            let name = object.split_once('/')?.1.split_ascii_whitespace().next()?;
            Self { kind: Kind::of(kind)?, name, entry: Some(entry) }
        };
        (is_subdomain(found.name) && found.entry.is_none_or(shell::is_word)).then_some(found)
    }

    /// The entries of the object that a pod names.
    fn entries(&self, pod: &'a Pod) -> BTreeSet<&'a str> {
        let spec = pod.spec.iter();
        let containers =
            spec.clone().flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
        let volumes = spec.flat_map(|spec| spec.volumes.iter().flatten()).flat_map(|volume| {
            let secret = volume.secret.as_ref().filter(|_| self.kind == Kind::Secret);
            let secret = secret.filter(|source| source.secret_name.as_deref() == Some(self.name));
            let map = volume.config_map.as_ref().filter(|_| self.kind == Kind::ConfigMap);
            let map = map.filter(|source| source.name == self.name).and_then(|source| source.items.as_ref());
            secret.and_then(|source| source.items.as_ref()).into_iter().chain(map).flatten()
        });
        let of_environment = containers.flat_map(|container| self.variables(container));
        let all = of_environment.chain(volumes.map(|item| item.key.as_str()));
        all.filter(|entry| shell::is_word(entry)).collect()
    }

    fn variables(&self, container: &'a Container) -> impl Iterator<Item = &'a str> {
        let sources = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
        sources.filter_map(|source| {
            let secret = source.secret_key_ref.as_ref().filter(|_| self.kind == Kind::Secret);
            let map = source.config_map_key_ref.as_ref().filter(|_| self.kind == Kind::ConfigMap);
            let secret = secret.map(|found| (found.name.as_str(), found.key.as_str()));
            let (name, key) =
                secret.or_else(|| map.map(|found| (found.name.as_str(), found.key.as_str())))?;
            (name == self.name).then_some(key)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_become_parts_of_commands() {
        let absent =
            |message| MissingObject::parse(message).map(|found| (found.kind, found.name, found.entry));
        for (message, expected) in [
            ("secret \"token\" not found", Some((Kind::Secret, "token", None))),
            ("cannot plan: secrets \"hf\" not found", Some((Kind::Secret, "hf", None))),
            (
                "MountVolume.SetUp failed for volume \"v\" : configmap \"m\" not found",
                Some((Kind::ConfigMap, "m", None)),
            ),
            ("couldn't find key A_B in Secret ns/token", Some((Kind::Secret, "token", Some("A_B")))),
            ("secret \"a; rm -rf /\" not found", None),
            ("couldn't find key $(id) in Secret ns/token", None),
            ("persistentvolumeclaim \"c\" not found", None),
            ("image \"a\" not found", None),
            ("\" not found", None),
            ("nothing", None),
        ] {
            assert_eq!(absent(message), expected, "{message}");
        }
    }
}
