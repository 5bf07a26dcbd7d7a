"""Where each known trap of translating is tested: an index, kept honest.

Names are `module.function` below this package, or whole modules from `tests` on.
"""

from __future__ import annotations

import importlib

from tests.support.rows import each

TRAPS = {
    "instructions: at the top, as blocks, in the middle of a conversation": (
        "test_chat_to_messages_request.test_conversation_is_said_as_messages",
        "test_chat_to_messages_request.test_system_in_the_middle_keeps_its_role_where_the_upstream_takes_it",
        "gemini.test_gemini_to_chat_contents.test_system_instruction_is_read_in_both_spellings_and_forms",
    ),
    "roles that must alternate, turns that must be merged": (
        "test_parts_of_codecs.test_turns_merge_and_results_come_first",
        "test_properties.test_messages_upstream_is_given_what_its_protocol_allows",
    ),
    "tool results: their call, its name, errors, images, orphans": (
        "test_chat_to_messages_request.test_results_know_the_name_of_their_call",
        "test_properties.test_chat_upstream_is_given_results_right_after_calls",
        "gemini.test_chat_to_gemini_contents.test_conversation_of_chat_arrives",
        "gemini.test_chat_to_gemini_members.test_error_of_a_tool_is_an_error",
        "gemini.test_gemini_to_chat_contents.test_media_in_a_result_and_an_error_are_read",
    ),
    "calls without ids, several of one name": (
        "gemini.test_gemini_to_chat_contents.test_made_ids_are_the_same_every_time_and_as_the_conversation_grows",
        "test_chat_stream_decoder.test_missing_id_is_made_and_stays_the_same",
    ),
    "the choice of tools, named and narrowed": (
        "gemini.test_chat_to_gemini_members.test_choice_of_tools_arrives",
        "gemini.test_gemini_to_chat_members.test_choice_of_tools_is_read",
        "test_chat_to_messages_members.test_members_are_carried_or_reported",
    ),
    "no calls in parallel": (
        "test_chat_to_messages_members.test_members_are_carried_or_reported",
        "test_messages_to_chat_members.test_members_are_carried_or_reported",
    ),
    "schemas that a provider refuses, names that are too long": (
        "gemini.test_schema_out.test_schema_is_said_as_the_protocol_can",
        "gemini.test_schema_out.test_no_schema_raises_or_leaves_a_keyword_that_is_refused",
        "test_messages_to_chat_members.test_tool_names_too_long_for_chat_are_shortened_and_known",
        "test_table_and_call.test_stream_comes_back_under_the_clients_tool_names",
    ),
    "tools that the provider runs": (
        "test_every_field.test_field_arrives_where_it_belongs_or_is_listed",
        "test_whole_answers.test_blocks_of_the_providers_tools_are_passed_over",
    ),
    "images and files: inline, by address, their true type": (
        "test_parts_of_codecs.test_type_is_what_the_bytes_say_where_they_do",
        "gemini.test_chat_to_gemini_contents.test_detail_of_images_is_the_resolution_of_all",
        "tests.acceptance.test_every_way",
    ),
    "texts in arrays, empty and blank ones": (
        "test_whole_answers.test_content_in_parts_is_read",
        "test_properties.test_messages_upstream_is_given_what_its_protocol_allows",
    ),
    "the maximum, demanded or not, under either name": (
        "test_chat_to_messages_members.test_either_name_of_the_maximum_is_the_maximum",
        "test_messages_to_chat_members.test_maximum_goes_under_the_channels_name_for_it",
        "tests.acceptance.test_translated_failures",
    ),
    "sampling: narrower ranges, not while thinking, no null": (
        "test_chat_to_messages_members.test_members_are_carried_or_reported",
        "gemini.test_gemini_to_chat_members.test_sampling_arrives",
        "test_parts_of_codecs.test_neutral_and_null_members_lose_nothing",
    ),
    "stop sequences, and which one it was": (
        "test_messages_stream_decoder.test_stream_is_read",
        "test_whole_answers.test_stop_sequence_is_named_where_it_can_be",
    ),
    "why it ended, with a call earlier in the stream, or with no answer at all": (
        "test_whole_answers.test_finish_means_the_same_both_ways",
        "gemini.test_stream_decoder.test_every_reason_has_its_word",
        "gemini.test_stream_decoder.test_stream_is_read",
        "test_chat_stream_encoder.test_stop_after_calls_is_tool_calls",
    ),
    "usage of messages: without the caches, running totals": (
        "test_messages_stream_decoder.test_stream_is_read",
        "test_whole_answers.test_input_of_messages_leaves_the_cache_out",
    ),
    "usage of chat: asked for, withheld, in a chunk of its own": (
        "test_messages_to_chat_members.test_stream_is_always_asked_for_usage",
        "test_chat_stream_encoder.test_usage_is_for_a_client_that_asked",
        "test_whole_answers.test_input_of_chat_includes_the_cache",
    ),
    "usage of native-content: thoughts beside the candidates, zeros": (
        "gemini.test_stream_decoder.test_usage_is_stated_as_the_upstream_does",
        "test_whole_answers.test_usage_of_zero_is_stated_and_none_is_not",
    ),
    "usage of responses, however it ended": ("tests.unit.channels.test_transcripts",),
    "thinking: its proof, never as text, on the first of parallel calls": (
        "test_thinking_round_trip.test_signatures_survive_a_chat_client",
        "test_thinking_round_trip.test_thinking_is_never_visible_text",
        "test_properties.test_unsigned_thoughts_never_reach_a_messages_client",
        "gemini.test_thinking_round_trip.test_client_that_loses_the_signature_skips_its_check",
        "test_foreign_proofs.test_foreign_thoughts_stay_behind_in_messages",
    ),
    "effort: words and numbers, not both": (
        "gemini.test_chat_to_gemini_members.test_effort_for_an_older_model_is_a_number_and_told",
        "gemini.test_gemini_to_chat_members.test_thinking_is_read",
        "gemini.test_gemini_to_chat_members.test_wrong_member_is_refused_by_its_name",
    ),
    "answers by a schema": (
        "gemini.test_gemini_to_chat_members.test_form_of_the_answer_is_read",
        "gemini.test_gemini_to_chat_members.test_schema_of_an_answer_is_enforced_where_chat_can",
        "test_parts_of_codecs.test_schema_is_strict_where_every_object_is_closed",
    ),
    "marks for the cache": ("test_every_field.test_field_arrives_where_it_belongs_or_is_listed",),
    "the order of a messages stream": (
        "test_messages_stream_encoder.test_stream_is_start_blocks_delta_stop",
        "test_messages_stream_encoder.test_events_are_written_as_blocks",
    ),
    "calls of a chat stream: counted by themselves, named once, arguments always": (
        "test_chat_stream_encoder.test_events_are_written_as_deltas",
        "test_chat_stream_encoder.test_cut_stream_has_no_finish_and_no_terminator",
    ),
    "a responses stream": ("tests.unit.translators.responses.test_chat_stream",),
    "a native-content stream: events or an array, no terminator, whole calls": (
        "gemini.test_stream_encoder.test_stream_is_written",
        "gemini.test_stream_encoder.test_array_form_has_the_same_objects",
        "tests.unit.calls.test_translated_streams",
        "tests.unit.calls.test_open_ended_streams",
    ),
    "errors within a stream and before it, redacted": (
        "test_parts_of_codecs.test_failures_are_known_by_any_dialects_word",
        "test_table_and_call.test_failure_before_anything_was_said_is_the_callers",
        "test_table_and_call.test_failure_amid_the_answer_is_said_in_the_clients_words",
        "gemini.test_stream_decoder.test_stream_is_read",
    ),
    "pings and silence": ("tests.unit.calls.test_keep_alive",),
    "bytes cut anywhere, events of megabytes, nonsense between": (
        "tests.unit.calls.test_every_cut",
        "test_odd_answers.test_odd_stream_is_translated_without_a_fault",
        "test_properties.test_no_stream_raises",
    ),
    "members that only one protocol has are never silently lost": (
        "test_every_field.test_every_member_the_official_library_of_chat_knows_is_in_the_table",
        "test_every_field.test_every_member_the_official_library_of_messages_knows_is_in_the_table",
        "test_every_field.test_every_member_the_official_library_of_gemini_knows_is_in_the_table",
        "tests.acceptance.test_translated_failures",
    ),
}
HERE = __name__.rpartition(".")[0]


@each("trap", TRAPS)
def test_trap_has_its_tests(trap: str) -> None:
    for name in TRAPS[trap]:
        if name.startswith("tests."):
            module = importlib.import_module(name)
            assert any(member.startswith("test_") for member in vars(module)), name
        else:
            module_name, _, function = name.rpartition(".")
            module = importlib.import_module(f"{HERE}.{module_name}")
            assert callable(getattr(module, function)), name
