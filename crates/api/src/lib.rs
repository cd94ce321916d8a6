//! What users write: the LLMInferenceService API, its versions, CRDs, defaults and conditions, and the foreign kinds we read or write.
