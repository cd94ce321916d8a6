//! LoRA adapters: the arguments that name them to the server, and the volumes that hold them.

use k8s_openapi::api::core::v1::{
    Container, PersistentVolumeClaimVolumeSource, PodSpec, Volume, VolumeMount,
};
use longboat_api::{
    child_name,
    engine::{Engine, LoraFlags},
};
use longboat_compose::{Adapter, AdapterSource};

use super::storage::{MAIN, add_mount, add_volume, container_mut};
use crate::context::Context;

/// The longest name of a volume.
const MAX_NAME: usize = 63;

/// Mounts the adapters that are on persistent volume claims.
pub(super) fn mount_claims(pod: &mut PodSpec, adapters: &[Adapter]) {
    for adapter in adapters.iter().filter(|adapter| adapter.source == AdapterSource::Claim) {
        let (claim, path) = (adapter.address.host(), adapter.address.path());
        let name = volume_name(&adapter.name);
        let Some(main) = container_mut(pod, MAIN) else { return };
        let mount = VolumeMount {
            name: name.clone(),
            mount_path: adapter.mount_path.clone(),
            sub_path: Some(path.to_owned()).filter(|path| !path.is_empty()),
            read_only: Some(true),
            ..VolumeMount::default()
        };
        add_mount(main, mount);
        let source = PersistentVolumeClaimVolumeSource { claim_name: claim.into(), read_only: None };
        add_volume(pod, Volume { name, persistent_volume_claim: Some(source), ..Volume::default() });
    }
}

/// The volume name for an adapter. Names that are invalid for a volume are replaced by their hash, which keeps them distinct.
fn volume_name(adapter: &str) -> String {
    const PREFIX: &str = "lora-pvc-";
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let valid = adapter.chars().all(plain) && !adapter.ends_with('-');
    if valid || PREFIX.len() + adapter.len() > MAX_NAME && adapter.chars().all(plain) {
        return child_name(PREFIX, adapter);
    }
    // `child_name` only hashes a parent that is too long, so the name is padded.
    let hashed = child_name(&format!("{adapter:/<64}"), "");
    let hash: String = hashed.chars().skip(hashed.len() - 32).collect();
    format!("{PREFIX}{hash}")
}

/// Prepends the flags for adapters to the server's arguments, unless the user loads adapters in their own way.
pub(super) fn enable(context: &Context, main: &mut Container, adapters: &[Adapter]) {
    let engine = Engine::of_spec(context.spec);
    let Some(flags) = &engine.lora else { return };
    if adapters.is_empty() || loads_its_own(main, engine, flags) {
        return;
    }
    let limits = context.spec.model.lora.as_ref();
    let flag = |name: &str, value: Option<i32>| value.map(|value| format!("{name}={value}"));
    let mut args = vec![flags.enable.to_owned()];
    args.extend(flag(flags.max_rank, limits.and_then(|limits| limits.max_rank)));
    args.extend(flag(flags.max_adapters, limits.and_then(|limits| limits.max_adapters)));
    args.extend(flag(flags.max_cpu_adapters, limits.and_then(|limits| limits.max_cpu_adapters)));
    args.push(flags.modules.to_owned());
    for adapter in adapters {
        for name in [adapter.name.clone(), context.published_name(&adapter.name)] {
            let module = format!(
                "{{\"name\":{},\"path\":{}}}",
                json_string(&name),
                json_string(adapter.mount_path.as_str())
            );
            // The presets run arguments through a shell once more, which removes the single quotes.
            args.push(format!("'{module}'"));
        }
    }
    args.append(main.args.get_or_insert_default());
    main.args = Some(args);
}

/// A text as a JSON string that is safe between the single quotes of a shell, and in which the kubelet finds no `$(NAME)`.
fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\'', r"\u0027").replace('$', r"\u0024")
}

fn loads_its_own(main: &Container, engine: &Engine, flags: &LoraFlags) -> bool {
    let words = main.command.iter().chain(&main.args).flatten();
    let literal = main
        .env
        .iter()
        .flatten()
        .filter(|variable| engine.arguments == Some(variable.name.as_str()))
        .filter_map(|variable| variable.value.as_ref());
    words.chain(literal).any(|text| text.contains(flags.modules))
}

#[cfg(test)]
mod tests {
    use super::volume_name;

    #[test]
    fn every_adapter_gets_a_valid_volume_of_its_own() {
        assert_eq!(volume_name("sql"), "lora-pvc-sql");
        assert_eq!(
            volume_name("this-is-a-really-long-lora-adapter-name-more-than-fifty-four-chars-long"),
            "lora-pvc-5d8eaf1abb940b210da12d4306b94f8ethis-is-a-really-long"
        );
        let odd = ["Org/A.b", "Org/A_b", "a-", "x.y"].map(volume_name);
        for name in &odd {
            assert!(name.len() <= 63 && !name.ends_with('-'), "{name}");
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{name}");
        }
        assert_ne!(odd[0], odd[1]);
    }
}
