from typing import final

CAPSULE: object

@final
class Export: ...
