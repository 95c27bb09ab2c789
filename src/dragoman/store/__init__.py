"""What lies on the disk: model folders, weights, checkpoints, and how they get there without ever being half written.

Knows: file names, safetensors, SHA-256, fsync, locks; that a disk fills up and that power fails.
Does not know: what a checkpoint means to the training, how a model is built, what a token is.

Read in this order: `files` (every touch of the disk), `records` (strict JSON), `tensors` (safetensors, checked before
it is believed), `checkpoint` (the protocol of a save), `lock`, `folder` (where things lie), `average`, `card`,
`bench`.
"""
