"""Models and their catalog, in the reference."""

from __future__ import annotations

from channels.family import ErrorShape
from gw import errors
from gw.api.models import entries, pages
from gw.api.models.public_catalog import PublicModels
from gw.api.reference.operation import Operation, answers, in_path, in_query, whole

TAG = "Models"
_ID = in_path("id", "The model's id, or an alias of it.", "demo-large")
_UNKNOWN = ((errors.MODEL_NOT_FOUND, 404),)

LIST = (
    Operation(
        name="list_models",
        tag=TAG,
        summary="List the models that the key may use.",
        description="All of them, placeholders too, whatever the balance; a page only with one of"
        " the parameters. With a version header of the messages protocol the entries have its"
        " members, and errors its shape.",
        parameters=(
            in_query("limit", "The size of a page.", whole(1, pages.PAGE_MAX)),
            in_query("after_id", "The model before the page."),
            in_query("before_id", "The model behind the page."),
        ),
        responses=answers(pages.ModelList, "The models."),
        raises=(errors.INVALID_REQUEST,),
        shapes=(ErrorShape.MESSAGES,),
    ),
)
ONE = (
    Operation(
        name="get_model",
        tag=TAG,
        summary="Read one model.",
        description="In the shape of the protocol that the headers tell: `x-goog-api-key` is"
        " native-content, a version header or `x-api-key` messages.",
        parameters=(_ID,),
        responses=answers(
            (entries.ModelDetail, entries.MessagesModel, entries.NativeModel), "The model."
        ),
        raises=_UNKNOWN,
        shapes=(ErrorShape.MESSAGES, ErrorShape.GEMINI),
    ),
)
NATIVE_LIST = (
    Operation(
        name="list_native_models",
        tag=TAG,
        summary="List the models that the key may use, for native-content.",
        parameters=(
            in_query(
                "pageSize",
                f"The size of a page; more than {pages.PAGE_MAX} is {pages.PAGE_MAX}.",
                whole(0, default=pages.NATIVE_PAGE),
            ),
            in_query("pageToken", "`nextPageToken` of the page before."),
        ),
        responses=answers(pages.NativeModelList, "A page of models."),
        raises=(errors.INVALID_REQUEST,),
    ),
)
NATIVE_ONE = (
    Operation(
        name="get_native_model",
        tag=TAG,
        summary="Read one model, for native-content.",
        parameters=(_ID,),
        responses=answers(entries.NativeModel, "The model."),
        raises=_UNKNOWN,
    ),
)
CATALOG = (
    Operation(
        name="list_public_models",
        tag=TAG,
        summary="List every model with its prices and capabilities, without a key.",
        responses=answers(PublicModels, "The catalog."),
    ),
)
