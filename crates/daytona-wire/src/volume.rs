//! A volume: a folder that outlives sandboxes and can be in several.

wire_words! {
    /// What a volume is doing.
    pub enum VolumeState {
        Ready = "ready",
        Creating = "creating",
        PendingCreate = "pending_create",
        PendingDelete = "pending_delete",
        Deleting = "deleting",
        Deleted = "deleted",
        Error = "error",
    }
}

wire_structs! {
    /// A volume as all operations answer it.
    #[serde(rename_all = "camelCase")]
    pub struct Volume {
        pub id: String,
        pub name: String,
        pub organization_id: String,
        pub state: VolumeState,
        pub created_at: String,
        pub updated_at: String,
        pub last_used_at: Option<String>,
        pub error_reason: Option<String>,
    }

    /// `POST /volumes`.
    #[serde(rename_all = "camelCase")]
    pub struct CreateVolume {
        pub name: String,
    }
}
