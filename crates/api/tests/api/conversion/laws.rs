//! Properties of conversions that hold for all objects.

use longboat_api::{
    conversion::{ConversionError, KEPT_PREFIX, KEPT_STATUS, Version, convert},
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig},
};
use proptest::prelude::*;
use serde_json::Value;

use super::{
    differences, down,
    generate::{Dice, newer, older},
    up,
};

const KINDS: [&str; 2] = ["LLMInferenceService", "LLMInferenceServiceConfig"];

/// The fields that `v1alpha1` lacks, at every possible path.
const NEWER_ONLY: [&str; 10] = [
    "/spec/kvCacheOffloading",
    "/spec/prefill/kvCacheOffloading",
    "/spec/model/confidential",
    "/spec/router/scheduler/pool/spec/targetPorts",
    "/spec/router/scheduler/pool/spec/appProtocol",
    "/spec/router/scheduler/pool/spec/endpointPickerRef",
    "/status/router",
    "/status/workloads",
    "/status/appliedConfigs",
    "/status/referencedBy",
];

/// The paths that annotations of kept fields can name.
const KEPT_PATHS: [&str; 13] = [
    "kvCacheOffloading",
    "kvCacheOffloading.cpu",
    "kvCacheOffloading.secondary",
    "prefill.kvCacheOffloading",
    "prefill.kvCacheOffloading.evictionPolicy",
    "model.confidential",
    "model.confidential.enabled",
    "model.confidential.resourceId",
    "model.lora.adapters",
    "router.scheduler.pool.spec.targetPorts",
    "router.scheduler.pool.spec.appProtocol",
    "router.scheduler.pool.spec.endpointPickerRef",
    "model.uri",
];

fn readable(object: &Value) -> bool {
    if object["kind"] == KINDS[0] {
        serde_json::from_value::<LLMInferenceService>(object.clone()).is_ok()
    } else {
        serde_json::from_value::<LLMInferenceServiceConfig>(object.clone()).is_ok()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_newer_object_survives_the_older_version(seed: u64) {
        for kind in KINDS {
            let object = newer(kind, &mut Dice::new(seed));
            let older = down(&object);
            for pointer in NEWER_ONLY {
                prop_assert_eq!(older.pointer(pointer), None, "{}", pointer);
            }
            prop_assert_eq!(differences(&up(&older), &object), Vec::<String>::new());
        }
    }

    #[test]
    fn an_older_object_survives_the_newer_version(seed: u64) {
        for kind in KINDS {
            let mut object = older(kind, &mut Dice::new(seed));
            let newer = up(&object);
            prop_assert!(!newer.to_string().contains(KEPT_PREFIX));
            // An empty criticality means no criticality.
            let adapters = object.pointer_mut("/spec/model/lora/adapters").and_then(Value::as_array_mut);
            prop_assert!(adapters.is_none_or(|adapters| adapters.iter().all(Value::is_object)));
            prop_assert_eq!(differences(&down(&newer), &object), Vec::<String>::new());
        }
    }

    #[test]
    fn any_part_of_an_object_can_be_converted(seed: u64) {
        for kind in KINDS {
            let mut dice = Dice::new(seed);
            let mut object = newer(kind, &mut dice);
            if dice.roll(2) == 0 {
                convert(&mut object, Version::V1Alpha1).unwrap();
            }
            for part in ["spec", "status"] {
                damage(&mut object[part], &mut dice);
            }
            let target = if object["apiVersion"] == Version::V1Alpha1.api_version() { Version::V1Alpha2 } else { Version::V1Alpha1 };
            let only_places_missing = match convert(&mut object, target) {
                Ok(()) => true,
                Err(error) => matches!(error, ConversionError::NotAMap { .. }),
            };
            prop_assert!(only_places_missing);
        }
    }

    #[test]
    fn whatever_an_annotation_says_what_was_readable_stays_so(text in ".{0,60}", seed: u64) {
        for kind in KINDS {
            let mut dice = Dice::new(seed);
            let plain = older(kind, &mut dice);
            let mut kept = newer(kind, &mut dice);
            for part in ["spec", "status"] {
                damage(&mut kept[part], &mut dice);
            }
            for text in [text.clone(), kept["spec"].to_string(), kept["status"].to_string()] {
                let mut object = plain.clone();
                let whole = serde_json::from_str::<Value>(&text).unwrap_or_default();
                for path in KEPT_PATHS {
                    let value = whole.pointer(&format!("/{}", path.replace('.', "/")));
                    let value = value.map_or_else(|| text.clone(), Value::to_string);
                    if dice.roll(3) > 0 {
                        object["metadata"]["annotations"][format!("{KEPT_PREFIX}{path}")] = value.into();
                    }
                }
                if object["status"].is_object() && object["status"]["annotations"].is_null() {
                    object["status"]["annotations"] = serde_json::json!({KEPT_STATUS: text});
                }
                let converted = up(&object);
                prop_assert!(!converted.to_string().contains(KEPT_PREFIX));
                prop_assert!(readable(&converted) || !readable(&up(&plain)), "{}", converted);
            }
        }
    }
}

/// Removes fields, or replaces them by other values.
fn damage(value: &mut Value, dice: &mut Dice) {
    match dice.roll(24) {
        0 => *value = Value::Null,
        1 => *value = 5.into(),
        2 => *value = serde_json::json!({}),
        3 => *value = serde_json::json!([]),
        _ => match value {
            Value::Object(fields) => {
                fields.retain(|_, _| dice.roll(12) > 0);
                for value in fields.values_mut() {
                    damage(value, dice);
                }
            }
            Value::Array(items) => {
                items.retain(|_| dice.roll(6) > 0);
                for value in items {
                    damage(value, dice);
                }
            }
            _ => {}
        },
    }
}
