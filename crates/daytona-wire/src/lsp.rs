//! Language servers.

wire_structs! {
    /// `POST /lsp/start` and `POST /lsp/stop`.
    #[serde(rename_all = "camelCase")]
    pub struct LspServerRequest {
        pub language_id: String,
        pub path_to_project: String,
    }

    /// `POST /lsp/did-open` and `POST /lsp/did-close`.
    #[serde(rename_all = "camelCase")]
    pub struct LspDocumentRequest {
        pub language_id: String,
        pub path_to_project: String,
        pub uri: String,
    }

    /// `POST /lsp/completions`.
    #[serde(rename_all = "camelCase")]
    pub struct LspCompletionParams {
        pub language_id: String,
        pub path_to_project: String,
        pub uri: String,
        pub position: LspPosition,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub context: Option<CompletionContext>,
    }

    /// What made the editor ask.
    #[serde(rename_all = "camelCase")]
    pub struct CompletionContext {
        pub trigger_kind: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub trigger_character: Option<String>,
    }

    /// Its answer.
    #[serde(rename_all = "camelCase")]
    pub struct CompletionList {
        pub is_incomplete: bool,
        pub items: Vec<CompletionItem>,
    }

    /// One proposal.
    #[serde(rename_all = "camelCase")]
    pub struct CompletionItem {
        pub label: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub kind: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub detail: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub documentation: Option<serde_json::Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub sort_text: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub filter_text: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub insert_text: Option<String>,
    }

    /// A symbol of a document or of the project.
    #[serde(rename_all = "camelCase")]
    pub struct LspSymbol {
        pub name: String,
        pub kind: u32,
        pub location: LspLocation,
    }

    /// Where a symbol is.
    #[serde(rename_all = "camelCase")]
    pub struct LspLocation {
        pub uri: String,
        pub range: LspRange,
    }

    /// From where to where.
    #[serde(rename_all = "camelCase")]
    pub struct LspRange {
        pub start: LspPosition,
        pub end: LspPosition,
    }

    /// Both count from zero; characters are UTF-16.
    #[serde(rename_all = "camelCase")]
    pub struct LspPosition {
        pub line: u32,
        pub character: u32,
    }
}
