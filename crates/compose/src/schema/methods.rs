//! The methods of the reference's Go types for services, which templates can call.

use longboat_api::{
    annotations::{DRA_CEL_SELECTOR, DRA_DEVICE_CLASS, DRA_DEVICE_COUNT, PRESET_PIN_PREFIX},
    child_name,
    names::suffix,
};
use longboat_key::{Name, Namespace};
use longboat_template::{
    Answer, Call, Method, Param, Receiver,
    reflect::{Ty, Value},
};
use serde_json::{Value as Json, json};

use super::TYPES;

/// The methods of a struct by its name in the table.
pub(super) fn of(name: &str) -> &'static [Method] {
    match name {
        "knative.apis.Condition" => &CONDITION,
        "knative.v1.Status" => &STATUS,
        "meta.v1.ObjectMeta" => &OBJECT_META,
        "meta.v1.TypeMeta" => &[],
        "serving.v1alpha2.GatewaySpec" => &GATEWAY,
        "serving.v1alpha2.HTTPRouteSpec" => &HTTP_ROUTE,
        "serving.v1alpha2.InferencePoolSpec" => &INFERENCE_POOL,
        "serving.v1alpha2.LLMInferenceService" => &LLM_INFERENCE_SERVICE,
        "serving.v1alpha2.ParallelismSpec" => &PARALLELISM,
        "serving.v1alpha2.RouterSpec" => &ROUTER,
        "serving.v1alpha2.SchedulerSpec" => &SCHEDULER,
        _ => &[Method::COPY],
    }
}

const STRING: &[Param] = &[Param::String];
static OF_SERVICE: [Param; 1] = [Param::Pointer(|| &TYPES.service)];

type MethodResult<'a> = Result<Answer<'a>, String>;

const fn nothing(name: &'static str, params: &'static [Param]) -> Method {
    Method { name, params, call: Call::Nothing }
}

/// `metav1.ObjectMeta`: a getter and a setter for each field.
static OBJECT_META: [Method; 31] = [
    Method::COPY,
    Method::get("GetName", |object, _| object.field("Name")),
    Method::get("GetGenerateName", |object, _| object.field("GenerateName")),
    Method::get("GetNamespace", |object, _| object.field("Namespace")),
    Method::get("GetSelfLink", |object, _| object.field("SelfLink")),
    Method::get("GetUID", |object, _| object.field("UID")),
    Method::get("GetResourceVersion", |object, _| object.field("ResourceVersion")),
    Method::get("GetGeneration", |object, _| object.field("Generation")),
    Method::get("GetCreationTimestamp", |object, _| object.field("CreationTimestamp")),
    Method::get("GetDeletionTimestamp", |object, _| object.field("DeletionTimestamp")),
    Method::get("GetDeletionGracePeriodSeconds", |object, _| object.field("DeletionGracePeriodSeconds")),
    Method::get("GetLabels", |object, _| object.field("Labels")),
    Method::get("GetAnnotations", |object, _| object.field("Annotations")),
    Method::get("GetOwnerReferences", |object, _| object.field("OwnerReferences")),
    Method::get("GetFinalizers", |object, _| object.field("Finalizers")),
    Method::get("GetManagedFields", |object, _| object.field("ManagedFields")),
    nothing("SetName", STRING),
    nothing("SetGenerateName", STRING),
    nothing("SetNamespace", STRING),
    nothing("SetSelfLink", STRING),
    nothing("SetUID", STRING),
    nothing("SetResourceVersion", STRING),
    nothing("SetGeneration", &[Param::Int]),
    nothing("SetCreationTimestamp", &[Param::Any]),
    nothing("SetDeletionTimestamp", &[Param::Any]),
    nothing("SetDeletionGracePeriodSeconds", &[Param::Any]),
    nothing("SetLabels", &[Param::Any]),
    nothing("SetAnnotations", &[Param::Any]),
    nothing("SetOwnerReferences", &[Param::Any]),
    nothing("SetFinalizers", &[Param::Any]),
    nothing("SetManagedFields", &[Param::Any]),
];

/// `v1alpha2.LLMInferenceService`.
static LLM_INFERENCE_SERVICE: [Method; 11] = [
    Method::COPY,
    Method::get("HasManagedDRA", |service, _| Answer::bool(annotation(service, DRA_DEVICE_CLASS).is_some())),
    Method { name: "ManagedDRADeviceClass", params: &[], call: Call::And("bool") },
    Method { name: "ManagedDRAContainerName", params: &[], call: Call::And("bool") },
    Method::get("ManagedDRADeviceCount", |service, _| device_count(annotation(service, DRA_DEVICE_COUNT))),
    Method::get("ManagedDRACelSelectors", |service, _| {
        let text = annotation(service, DRA_CEL_SELECTOR).unwrap_or_default();
        let lines: Vec<&str> = text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect();
        Ok(Answer::Made(Ty::Slice("", &Ty::Str("string")), json!(lines)))
    }),
    Method::new("IsUsingLLMInferenceServiceConfig", STRING, |service, args| {
        service.json()?;
        Answer::bool(is_using(service, Name(args[0].as_str()), None))
    }),
    Method::new(
        "IsUsingLLMInferenceServiceConfigInNamespace",
        &[Param::String, Param::String],
        |service, args| {
            service.json()?;
            Answer::bool(is_using(service, Name(args[0].as_str()), Some(Namespace(args[1].as_str()))))
        },
    ),
    Method::get("GetStatus", |service, _| {
        let status = service.json()?.and_then(|service| service.get("status"));
        Ok(match status {
            Some(status) => Answer::Value(Value::Typed(Ty::Ptr(&TYPES.status), Some(status))),
            None => Answer::Made(Ty::Ptr(&TYPES.status), json!({})),
        })
    }),
    nothing("DetermineWorkloadReadiness", &[]),
    nothing("DetermineRouterReadiness", &[]),
];

/// `duckv1.Status`.
static STATUS: [Method; 3] = [
    Method::COPY,
    Method::get("GetConditions", |status, _| {
        let all = status.json()?.and_then(|status| status.get("conditions"));
        Ok(Answer::Value(Value::Typed(Ty::Slice("apis.Conditions", &TYPES.condition), all)))
    }),
    Method::new("GetCondition", STRING, |status, args| {
        let condition_type = args[0].as_str();
        let all = status.json()?.and_then(|status| status.get("conditions")).and_then(Json::as_array);
        let found = all.into_iter().flatten().find(|condition| condition["type"] == *condition_type);
        Ok(Answer::Value(Value::Typed(Ty::Ptr(&TYPES.condition), found)))
    }),
];

/// `apis.Condition`. All of these methods also work on nil.
static CONDITION: [Method; 6] = [
    Method::COPY,
    Method::get("IsTrue", |condition, _| Answer::bool(text(condition, "status") == "True")),
    Method::get("IsFalse", |condition, _| Answer::bool(text(condition, "status") == "False")),
    Method::get("IsUnknown", |condition, _| {
        Answer::bool(matches!(condition, Receiver::Nil) || text(condition, "status") == "Unknown")
    }),
    Method::get("GetReason", |condition, _| Answer::text(text(condition, "reason"))),
    Method::get("GetMessage", |condition, _| Answer::text(text(condition, "message"))),
];

/// `v1alpha2.ParallelismSpec`. All of these methods also work on nil.
static PARALLELISM: [Method; 5] = [
    Method::COPY,
    Method::get("IsPipelineParallel", |all, _| Answer::bool(number(all, "pipeline") > 0)),
    Method::get("IsDataParallel", |all, _| Answer::bool(is_data_parallel(all))),
    Method::get("IsTensorParallel", |all, _| Answer::bool(number(all, "tensor") > 0)),
    Method::get("GetSize", |all, _| {
        let at_least_one = |key: &str| all.get(key).and_then(Json::as_i64).unwrap_or(1).max(1);
        Ok(if is_data_parallel(all) {
            let size = (at_least_one("data") / at_least_one("dataLocal")).max(1);
            Answer::Made(Ty::Ptr(&Ty::Int("int32")), json!(size))
        } else {
            let pipeline = all.get("pipeline").filter(|pipeline| pipeline.as_i64().is_some_and(|p| p > 0));
            Answer::Value(Value::Typed(Ty::Ptr(&Ty::Int("int32")), pipeline))
        })
    }),
];

/// `v1alpha2.GatewaySpec`.
static GATEWAY: [Method; 2] = [Method::COPY, Method::get("HasRefs", has_refs)];

/// `v1alpha2.HTTPRouteSpec`.
static HTTP_ROUTE: [Method; 3] = [
    Method::COPY,
    Method::get("HasRefs", has_refs),
    Method::get("HasSpec", |route, _| Answer::bool(route.get("spec").is_some())),
];

/// `v1alpha2.InferencePoolSpec`.
static INFERENCE_POOL: [Method; 2] =
    [Method::COPY, Method::get("HasRef", |pool, _| Answer::bool(referenced(pool.get("ref")).is_some()))];

/// `v1alpha2.SchedulerSpec`.
static SCHEDULER: [Method; 2] = [
    Method::COPY,
    Method::new("InferencePoolName", &OF_SERVICE, |scheduler, args| {
        match referenced(scheduler.get("pool").and_then(|pool| pool.get("ref"))) {
            Some(name) => Answer::text(name),
            None => Answer::text(child_name(name_of(&args[0])?, suffix::INFERENCE_POOL)),
        }
    }),
];

/// `v1alpha2.RouterSpec`.
static ROUTER: [Method; 5] = [
    Method::COPY,
    Method::get("HasGroup", |router, _| Answer::bool(of_route(router, "group").is_some())),
    Method::get("Group", |router, _| {
        Ok(Answer::Value(Value::Typed(Ty::Ptr(&Ty::Str("string")), of_route(router, "group"))))
    }),
    Method::get("Weight", |router, _| {
        Ok(Answer::Value(Value::Typed(Ty::Ptr(&Ty::Int("int32")), of_route(router, "weight"))))
    }),
    Method::new("EPPServiceName", &OF_SERVICE, |router, args| {
        let pool = router.get("scheduler").and_then(|scheduler| scheduler.get("pool"));
        let own = pool.filter(|pool| referenced(pool.get("ref")).is_none());
        let named = own.and_then(|pool| pool.pointer("/spec/endpointPickerRef/name")?.as_str());
        match named.filter(|name| !name.is_empty()) {
            Some(name) => Answer::text(name),
            None => Answer::text(child_name(name_of(&args[0])?, suffix::EPP_SERVICE)),
        }
    }),
];

/// A field of a router's route; none where there is no router, or it has no route.
fn of_route<'a>(router: Receiver<'a>, key: &str) -> Option<&'a Json> {
    router.get("route")?.get(key).filter(|value| !value.is_null())
}

fn has_refs<'a>(of: Receiver<'a>, _: &[Value<'a>]) -> MethodResult<'a> {
    Answer::bool(of.get("refs").and_then(Json::as_array).is_some_and(|refs| !refs.is_empty()))
}

fn referenced(reference: Option<&Json>) -> Option<&str> {
    reference?.get("name")?.as_str().filter(|name| !name.is_empty())
}

fn number(of: Receiver<'_>, key: &str) -> i64 {
    of.get(key).and_then(Json::as_i64).unwrap_or_default()
}

fn text<'a>(of: Receiver<'a>, key: &str) -> &'a str {
    of.get(key).and_then(Json::as_str).unwrap_or_default()
}

fn is_data_parallel(parallelism: Receiver<'_>) -> bool {
    number(parallelism, "data") > 0 || number(parallelism, "dataLocal") > 0
}

/// The name of a service that is an argument of a method.
fn name_of<'v>(service: &'v Value<'_>) -> Result<&'v str, String> {
    match service {
        Value::Typed(_, Some(json)) => Ok(json["metadata"]["name"].as_str().unwrap_or_default()),
        _ => Receiver::Nil.json().map(|_| ""),
    }
}

fn annotation<'a>(service: Receiver<'a>, key: &str) -> Option<&'a str> {
    service.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// The number of devices that a pod requests. If the text is not a positive number, returns an error with Go's message.
fn device_count<'a>(raw: Option<&str>) -> MethodResult<'a> {
    let int = |value: i64| Ok(Answer::Value(Value::Int(value)));
    let Some(raw) = raw.filter(|raw| !raw.trim().is_empty()) else { return int(1) };
    let invalid = |why: &str| Err(format!("invalid {DRA_DEVICE_COUNT} value {raw:?}: {why}"));
    match raw.trim().parse::<i64>() {
        Ok(count) if count >= 1 => int(count),
        Ok(_) => invalid("must be >= 1"),
        Err(_) => invalid(&format!("strconv.Atoi: parsing {:?}: invalid syntax", raw.trim())),
    }
}

/// Whether a service uses a config: according to `status.appliedConfigs`, or else to the status annotations and the
/// references.
fn is_using(service: Receiver<'_>, name: Name<&str>, namespace: Option<Namespace<&str>>) -> bool {
    let status = service.get("status");
    let applied = status.and_then(|status| status.get("appliedConfigs")).and_then(Json::as_array);
    if let Some(applied) = applied.filter(|applied| !applied.is_empty()) {
        return applied.iter().any(|config| {
            config["name"] == *name
                && namespace.is_none_or(|one| one.is_empty() || config["namespace"] == *one)
        });
    }
    let pinned = status.and_then(|status| status.get("annotations")).and_then(Json::as_object);
    let refs = service.get("spec").and_then(|spec| spec.get("baseRefs")).and_then(Json::as_array);
    pinned
        .into_iter()
        .flatten()
        .any(|(key, value)| key.starts_with(PRESET_PIN_PREFIX) && value == name.as_str())
        || refs.into_iter().flatten().any(|reference| reference["name"] == *name)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use longboat_template::{
        Limits, Template, go_methods,
        reflect::{Struct, Ty, Value},
    };
    use serde_json::json;

    use crate::{functions::FUNCTIONS, schema};

    /// Renders a template for a service with data parallelism only in its prefill half. Returns the output or the error.
    fn rendered(text: &str) -> String {
        let data = json!({
            "service": {
                "metadata": {
                    "name": "llm", "namespace": "ns", "generation": 3, "labels": {"a": "b"},
                    "annotations": {
                        "serving.kserve.io/exp-dra-device-class": " gpu ",
                        "serving.kserve.io/exp-dra-device-count": "0",
                        "serving.kserve.io/exp-dra-cel-selector": "one\n\n two",
                    },
                },
                "spec": {
                    "model": {"uri": "hf://org/model"},
                    "prefill": {"parallelism": {"data": 8, "dataLocal": 2}},
                    "router": {"route": {"group": "g"}},
                    "baseRefs": [{"name": "base"}],
                    "template": {"containers": [{
                        "name": "main", "resources": {"limits": {"cpu": "1500m", "memory": "2Gi"}},
                    }]},
                },
                "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Why"}]},
            },
            "global": {},
        });
        let template = Template::parse("config", text, FUNCTIONS).unwrap();
        match template.execute(&Value::typed(schema::TYPES.template_data, Some(&data)), Limits::default()) {
            Ok(text) => text,
            Err(error) => error.to_string().rsplit(">: ").next().unwrap_or_default().to_owned(),
        }
    }

    #[test]
    fn getters_and_questions_answer_as_those_of_the_reference_on_nil_too() {
        for (text, expected) in [
            ("{{.GetName}}/{{.ObjectMeta.GetNamespace}}", "llm/ns"),
            ("{{.LLMInferenceService.GetName}}", "llm"),
            ("{{.GetGeneration}} {{index .GetLabels `a`}} {{len .GetFinalizers}}", "3 b 0"),
            (
                "{{.Spec.Parallelism.IsDataParallel}} {{.Spec.Prefill.Parallelism.IsDataParallel}}",
                "false true",
            ),
            ("{{.Spec.Parallelism.GetSize}} {{.Spec.Prefill.Parallelism.GetSize}}", "<nil> 4"),
            ("{{$p := .Spec.Parallelism}}{{if not $p.IsPipelineParallel}}none{{end}}", "none"),
            ("{{with .Spec.Prefill}}{{.Parallelism.IsTensorParallel}}{{end}}", "false"),
            ("{{.HasManagedDRA}} {{.ManagedDRACelSelectors}}", "true [one two]"),
            (
                "{{.IsUsingLLMInferenceServiceConfig `base`}} {{`x` | .IsUsingLLMInferenceServiceConfig}}",
                "true false",
            ),
            ("{{.Spec.Router.EPPServiceName .LLMInferenceService}}", "llm-epp-service"),
            ("{{.Spec.Router.HasGroup}} {{.Spec.Router.Group}} {{.Spec.Router.Weight}}", "true g <nil>"),
            ("{{(index .Status.GetConditions 0).GetReason}}", "Why"),
            ("{{.GetStatus.ObservedGeneration}} {{(.GetStatus.GetCondition `Ready`).GetReason}}", "0 Why"),
            ("{{(.Status.GetCondition `Missing`).IsUnknown}}", "true"),
            ("{{.Spec.Model.URI.String}} {{.Spec.Model.URI.IsEmpty}}", "hf://org/model false"),
            (
                "{{with index .Spec.Template.Containers 0}}{{.Resources.Limits.Cpu.Value}} \
                 {{.Resources.Limits.Cpu.MilliValue}} {{.Resources.Limits.Memory.Value}} \
                 {{.Resources.Requests.Memory.IsZero}}{{end}}",
                "2 1500 2147483648 true",
            ),
        ] {
            assert_eq!(rendered(text), expected, "{text}");
        }
    }

    /// All structs that a template can reach.
    fn reach(ty: Ty, found: &mut BTreeMap<&'static str, Vec<&'static Struct>>) {
        match ty {
            Ty::Struct(of) => {
                let alike = found.entry(of.name).or_default();
                if alike.iter().any(|known| std::ptr::eq(*known, of)) {
                    return;
                }
                alike.push(of);
                for field in of.fields() {
                    reach(field.ty, found);
                }
            }
            Ty::Ptr(inner) | Ty::Slice(_, inner) | Ty::Map(_, inner) => reach(*inner, found),
            _ => {}
        }
    }

    #[test]
    fn what_can_be_called_is_a_method_in_go_and_what_cannot_of_the_api_is_listed() {
        let mut found = BTreeMap::new();
        reach(schema::TYPES.template_data, &mut found);
        let (mut missing, mut invented) = (BTreeSet::new(), Vec::new());
        for (name, structs) in &found {
            let theirs = go_methods(name);
            for of in structs {
                for method in of.methods {
                    if !theirs.contains(&method.name) {
                        invented.push(format!("{name} {}", method.name));
                    }
                }
                if !name.starts_with("v1alpha2.") {
                    continue;
                }
                let lacking = theirs.iter().filter(|method| {
                    let ours = of.methods.iter().any(|ours| ours.name == **method);
                    // Go counts those of embedded structs of other packages, too
                    let embedded = of.fields().iter().filter(|field| field.embedded).any(|field| {
                        matches!(field.ty, Ty::Struct(inner) if go_methods(inner.name).contains(method))
                    });
                    !ours && !embedded && !method.starts_with("Mark") && **method != "DeepCopyInto"
                });
                missing.extend(lacking.map(|method| format!("{name} {method}")));
            }
        }
        assert!(invented.is_empty(), "{invented:?}");
        assert_eq!(Vec::from_iter(missing), LACKING);
    }

    /// What a template cannot call of the API's own types, besides what marks conditions: it gives nothing, or only what programs use.
    const LACKING: [&str; 5] = [
        "v1alpha2.LLMInferenceService DeepCopyObject",
        "v1alpha2.LLMInferenceService GetConditionSet",
        "v1alpha2.LLMInferenceService Hub",
        "v1alpha2.LLMInferenceService SetDefaults",
        "v1alpha2.LLMInferenceServiceSpec SetDefaults",
    ];

    #[test]
    fn methods_that_a_template_cannot_call_or_calls_wrongly_fail_as_in_go() {
        for (text, expected) in [
            (
                "{{.ManagedDRADeviceClass}}",
                "invalid function signature for ManagedDRADeviceClass: second return value should be error; is bool",
            ),
            ("{{.SetName}}", "wrong number of args for SetName: want 1 got 0"),
            ("{{.SetName `x`}}", "function SetName has 0 return values; should be 1 or 2"),
            ("{{.GetName 1}}", "wrong number of args for GetName: want 0 got 1"),
            ("{{.IsUsingLLMInferenceServiceConfig 1}}", "expected string; found 1"),
            (
                "{{.ManagedDRADeviceCount}}",
                "error calling ManagedDRADeviceCount: invalid serving.kserve.io/exp-dra-device-count value \"0\": must be >= 1",
            ),
            (
                "{{.Spec.Router.EPPServiceName nil}}",
                "error calling EPPServiceName: runtime error: invalid memory address or nil pointer dereference",
            ),
            ("{{.Spec.Template.Size}}", "method Size of *v1.PodSpec is not available here"),
            ("{{.ObjectMeta.Marshal}}", "method Marshal of v1.ObjectMeta is not available here"),
            (
                "{{.LLMInferenceService.GetObjectKind}}",
                "method GetObjectKind of *v1alpha2.LLMInferenceService is not available here",
            ),
            (
                "{{with index .Spec.Template.Containers 0}}{{.Resources.Limits.Name `cpu` `x`}}{{end}}",
                "method Name of v1.ResourceList is not available here",
            ),
            (
                "{{.ObjectMeta.CreationTimestamp.Format `2006`}}",
                "method Format of v1.Time is not available here",
            ),
            ("{{.GetName.Foo}}", "can't evaluate field Foo in type string"),
            ("{{.Spec.GetName}}", "can't evaluate field GetName in type v1alpha2.LLMInferenceServiceSpec"),
            (
                "{{eq .Spec.Prefill.Parallelism.GetSize 4}}",
                "error calling eq: incompatible types for comparison: *int32 and int",
            ),
        ] {
            assert_eq!(rendered(text), expected, "{text}");
        }
    }
}
