//! Go types: Object metadata and selectors.

use longboat_template::reflect::Ty::{Bool, Int, Map, Ptr, Raw, Slice, Str, Struct, Time};

use super::{opt, req, structure};

structure!(
    TYPE_META,
    "v1.TypeMeta",
    [opt!("kind", "Kind", Str("string")), opt!("apiVersion", "APIVersion", Str("string")),],
    // it is no type of the API by itself, so it has no DeepCopy
    &[]
);

structure!(
    OBJECT_META,
    "v1.ObjectMeta",
    [
        opt!("name", "Name", Str("string")),
        opt!("generateName", "GenerateName", Str("string")),
        opt!("namespace", "Namespace", Str("string")),
        opt!("selfLink", "SelfLink", Str("string")),
        opt!("uid", "UID", Str("types.UID")),
        opt!("resourceVersion", "ResourceVersion", Str("string")),
        opt!("generation", "Generation", Int("int64")),
        opt!("creationTimestamp", "CreationTimestamp", Time),
        opt!("deletionTimestamp", "DeletionTimestamp", Ptr(&Time)),
        opt!("deletionGracePeriodSeconds", "DeletionGracePeriodSeconds", Ptr(&Int("int64"))),
        opt!("labels", "Labels", Map("", &Str("string"))),
        opt!("annotations", "Annotations", Map("", &Str("string"))),
        opt!("ownerReferences", "OwnerReferences", Slice("", &Struct(&OWNER_REFERENCE))),
        opt!("finalizers", "Finalizers", Slice("", &Str("string"))),
        opt!("managedFields", "ManagedFields", Slice("", &Struct(&MANAGED_FIELDS_ENTRY))),
    ],
    &super::methods::OBJECT_META
);

structure!(
    OWNER_REFERENCE,
    "v1.OwnerReference",
    [
        req!("apiVersion", "APIVersion", Str("string")),
        req!("kind", "Kind", Str("string")),
        req!("name", "Name", Str("string")),
        req!("uid", "UID", Str("types.UID")),
        opt!("controller", "Controller", Ptr(&Bool("bool"))),
        opt!("blockOwnerDeletion", "BlockOwnerDeletion", Ptr(&Bool("bool"))),
    ]
);

structure!(
    MANAGED_FIELDS_ENTRY,
    "v1.ManagedFieldsEntry",
    [
        opt!("manager", "Manager", Str("string")),
        opt!("operation", "Operation", Str("v1.ManagedFieldsOperationType")),
        opt!("apiVersion", "APIVersion", Str("string")),
        opt!("time", "Time", Ptr(&Time)),
        opt!("fieldsType", "FieldsType", Str("string")),
        opt!("fieldsV1", "FieldsV1", Ptr(&Raw)),
        opt!("subresource", "Subresource", Str("string")),
    ]
);

structure!(
    LABEL_SELECTOR,
    "v1.LabelSelector",
    [
        opt!("matchLabels", "MatchLabels", Map("", &Str("string"))),
        opt!("matchExpressions", "MatchExpressions", Slice("", &Struct(&LABEL_SELECTOR_REQUIREMENT))),
    ]
);

structure!(
    LABEL_SELECTOR_REQUIREMENT,
    "v1.LabelSelectorRequirement",
    [
        req!("key", "Key", Str("string")),
        req!("operator", "Operator", Str("v1.LabelSelectorOperator")),
        opt!("values", "Values", Slice("", &Str("string"))),
    ]
);
